/** The options of commands that open files of torch. */

import type { TorchChoices } from '../sources/open-source.js';
import { type CommandOptions, type OptionValues, UsageError } from './command.js';

export const TORCH_OPTIONS: CommandOptions = {
  root: {
    type: 'string',
    value: 'KEYS',
    help: 'where the state dict is in the file, such as state_dict or model.ema',
  },
  'unknown-globals': {
    type: 'string',
    value: 'placeholder',
    help: 'opens files that name classes of other packages, too',
  },
};

/** The options for opening a file of torch. Throws a UsageError for a wrong value. */
export function torchChoices({ root, 'unknown-globals': unknown }: OptionValues): TorchChoices {
  if (unknown !== undefined && unknown !== 'placeholder') {
    throw new UsageError('--unknown-globals takes placeholder');
  }
  return {
    ...(typeof root === 'string' ? { root: root.split('.') } : {}),
    ...(unknown === undefined ? {} : { unknownGlobals: unknown }),
  };
}
