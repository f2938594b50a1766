/** The options of commands that open torch files. */

import type { RootKeys } from '../../convert.js';
import type { TorchChoices } from '../sources/open-source.js';
import { type CommandOptions, type OptionValues, UsageError } from './command.js';

export const TORCH_OPTIONS: CommandOptions = {
  root: {
    type: 'string',
    value: 'KEYS',
    help: 'the keys of the state dict in the file, such as state_dict, model.ema or \'["a.b", 0]\'',
  },
  'unknown-globals': {
    type: 'string',
    value: 'placeholder',
    help: 'also opens files that name classes of other packages',
  },
};

/** The options for opening a torch file. Throws a UsageError for a wrong value. */
export function torchChoices({ root, 'unknown-globals': unknown }: OptionValues): TorchChoices {
  if (unknown !== undefined && unknown !== 'placeholder') {
    throw new UsageError('--unknown-globals takes placeholder');
  }
  return {
    ...(typeof root === 'string' ? { root: rootOf(root) } : {}),
    ...(unknown === undefined ? {} : { unknownGlobals: unknown }),
  };
}

/** Reads a JSON array of keys; leaves any other text to `openTorchCheckpoint`. */
function rootOf(text: string): string | RootKeys {
  if (!text.startsWith('[')) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError('--root takes keys with dots between them, or a JSON array of keys');
  }
}
