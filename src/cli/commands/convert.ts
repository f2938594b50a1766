/** `convert`: checkpoints of torch and arrays of NumPy to safetensors. */

import { type Command, UsageError } from './command.js';
import { requireHere } from './split.js';
import { convertLocal, DRY_RUN, SELECTION, SHARD_SIZE, shardSizeOf, write } from './written.js';

export const convertCommand: Command = {
  summary: 'torch, NumPy or safetensors to safetensors',
  usage: 'convert SOURCE TARGET [--dtype DTYPE] [--root KEYS]',
  description:
    'Converts a checkpoint of torch, an array or an archive of NumPy, or safetensors. TARGET is a path that ends in ' +
    '.safetensors, or a folder, which gets shards and an index when it is large. Nothing of the source is run, and ' +
    'what was written is compared with it.',
  options: {
    ...SELECTION,
    ...SHARD_SIZE,
    root: {
      type: 'string',
      value: 'KEYS',
      help: 'where the state dict is in the file, such as state_dict or model.ema',
    },
    'unknown-globals': {
      type: 'string',
      value: 'placeholder',
      help: 'converts files that name classes of other packages, too',
    },
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = requireHere(from);
    const { root, 'unknown-globals': unknown } = options;
    const maxShardSize = shardSizeOf(options);
    if (unknown !== undefined && unknown !== 'placeholder') {
      throw new UsageError('--unknown-globals takes placeholder');
    }
    const torch = {
      ...(typeof root === 'string' ? { root: root.split('.') } : {}),
      ...(unknown === undefined ? {} : ({ unknownGlobals: unknown } as const)),
    };
    await write(context, options, { source, target, label: 'converting' }, (selected) =>
      convertLocal(source, target, { ...torch, maxShardSize, ...selected }, options),
    );
    return 'done';
  },
};
