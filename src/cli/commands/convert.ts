/** `convert`: torch checkpoints and NumPy arrays to safetensors. */

import type { Command } from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { OTHER_FILES, requireHere } from './split.js';
import { convertLocal, DRY_RUN, SELECTION, SHARD_SIZE, shardSizeOf, write } from './written.js';

export const convertCommand: Command = {
  summary: 'converts torch, NumPy or safetensors to safetensors',
  usage:
    'convert SOURCE TARGET [--dtype DTYPE] [--dequantize DTYPE] [--root KEYS] [--unknown-globals placeholder]',
  description:
    'Converts a torch checkpoint, a NumPy array or archive, or safetensors. TARGET is a path that ends in ' +
    '.safetensors, or a folder, which gets shards and an index if the checkpoint is large. Never runs code from ' +
    'the source, and compares the written files with it.',
  options: {
    ...SELECTION,
    ...SHARD_SIZE,
    ...OTHER_FILES,
    ...FOREIGN_OPTIONS,
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = requireHere(from);
    const maxShardSize = shardSizeOf(options);
    const foreign = foreignChoices(options);
    const copyOtherFiles = options['copy-other-files'] === true;
    await write(context, options, { source, target, label: 'converting' }, (selected) =>
      convertLocal(source, target, { ...foreign, maxShardSize, copyOtherFiles, ...selected }),
    );
    return 'done';
  },
};
