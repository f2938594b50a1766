/** `convert`: torch checkpoints and NumPy arrays to safetensors. */

import type { Command } from './command.js';
import { OTHER_FILES, requireHere } from './split.js';
import { TORCH_OPTIONS, torchChoices } from './torch-options.js';
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
    ...OTHER_FILES,
    ...TORCH_OPTIONS,
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = requireHere(from);
    const maxShardSize = shardSizeOf(options);
    const torch = torchChoices(options);
    const copyOtherFiles = options['copy-other-files'] === true;
    await write(context, options, { source, target, label: 'converting' }, (selected) =>
      convertLocal(source, target, { ...torch, maxShardSize, copyOtherFiles, ...selected }),
    );
    return 'done';
  },
};
