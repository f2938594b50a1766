/** The options of commands that open PyTorch and NumPy files. */

import type { RootKeys, VoidDtype } from '../../index.js';
import type { ForeignChoices } from '../sources/open-source.js';
import { type CommandOptions, type OptionValues, requireChoice, UsageError } from './command.js';

export const FOREIGN_OPTIONS: CommandOptions = {
  root: {
    type: 'string',
    value: 'KEYS',
    help: 'the keys of the state dict in a PyTorch file, such as state_dict, model.ema or \'["a.b", 0]\'',
  },
  'unknown-globals': {
    type: 'string',
    value: 'placeholder',
    choices: ['placeholder'],
    help: 'also open PyTorch files that name classes of other packages',
  },
  'void-dtype': {
    type: 'string',
    value: 'DTYPE',
    choices: ['BF16', 'F8_E4M3', 'F8_E5M2'],
    help: 'the dtype of opaque items in NumPy files: BF16, F8_E4M3 or F8_E5M2',
  },
};

/** The options for opening a file of torch or NumPy. Throws a UsageError for a wrong value. */
export function foreignChoices({
  root,
  'unknown-globals': unknown,
  'void-dtype': voidDtype,
}: OptionValues): ForeignChoices {
  return {
    ...(typeof root === 'string' ? { root: rootOf(root) } : {}),
    ...(unknown === undefined
      ? {}
      : { unknownGlobals: requireChoice('unknown-globals', unknown, ['placeholder'] as const) }),
    // `openNumpy` checks it.
    ...(voidDtype === undefined ? {} : { voidDtype: voidDtype as VoidDtype }),
  };
}

/** Reads a JSON array of keys; leaves any other text to `open`. */
function rootOf(text: string): string | RootKeys {
  if (!text.startsWith('[')) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--root takes keys with dots between them, or a JSON array of keys');
  }
}

/** The keys as `--root` reads them back: with dots between, else as JSON. */
export function formatRoot(keys: RootKeys): string {
  const isPlain = keys.every((key) => typeof key === 'string' && /^[^.[]+$/.test(key));
  return isPlain ? keys.join('.') : JSON.stringify(keys);
}
