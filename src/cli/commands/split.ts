/** `split` and `merge`: write a checkpoint with another size of files. */

import { reshard } from '../../index.js';
import { chosenAt } from '../sources/chosen-source.js';
import { isRemote, localPath } from '../sources/open-source.js';
import { type Command, type CommandOptions, UsageError } from './command.js';
import { DUPLICATES, mergeSeveral } from './merge-several.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import { convertLocal, DRY_RUN, SELECTION, SHARD_SIZE, shardSizeOf, write } from './written.js';

/** Files beside the weights. */
export const OTHER_FILES: CommandOptions = {
  'copy-other-files': { type: 'boolean', help: 'also copies config, tokenizer and other files' },
};

/** The path of a local source. Throws a UsageError for a remote one. */
export function requireHere(source: string): string {
  if (!isRemote(source)) return localPath(source);
  throw new UsageError(
    'expected a local source; `safetensors-mmap download SOURCE TARGET` fetches safetensors, also with ' +
      '--filter, --exclude, --rename, --dtype, --dequantize and --max-shard-size',
  );
}

export const splitCommand: Command = {
  summary: 'writes a checkpoint in several files',
  usage: 'split SOURCE FOLDER [--max-shard-size SIZE]',
  description:
    "Writes the tensors into a folder, in files of limited size and an index, as the Hub's libraries do. The " +
    "folder may be the source's: the new files replace the old ones.",
  options: { ...SHARD_SIZE, ...SELECTION, ...OTHER_FILES, ...REPOSITORY, ...DRY_RUN },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = requireHere(from);
    const maxShardSize = shardSizeOf(options);
    const copyOtherFiles = options['copy-other-files'] === true;
    const { path, naming } = chosenAt(source, repositoryChoice(options));
    await write(context, options, { source, target, label: 'writing' }, (selected) =>
      reshard(path, target, { maxShardSize, copyOtherFiles, ...naming, ...selected }),
    );
    return 'done';
  },
};

export const mergeCommand: Command = {
  summary: 'writes checkpoints in one file',
  usage: 'merge SOURCE TARGET',
  description:
    'Writes all tensors of a checkpoint, or of several (merge A B C TARGET), into one file: TARGET is a path that ' +
    'ends in .safetensors, or a folder, which gets model.safetensors.',
  options: { ...SELECTION, ...DUPLICATES, ...OTHER_FILES, ...REPOSITORY, ...DRY_RUN },
  positionals: [2, Number.POSITIVE_INFINITY],
  async run(context, arguments_, options) {
    const sources = arguments_.slice(0, -1).map(requireHere);
    const target = arguments_.at(-1) ?? '';
    const [source = ''] = sources;
    if (sources.length > 1) {
      await mergeSeveral(context, sources, target, options);
      return 'done';
    }
    const isFile = target.endsWith('.safetensors');
    const copyOtherFiles = options['copy-other-files'] === true;
    const maxShardSize = Number.POSITIVE_INFINITY;
    const { path, naming } = chosenAt(source, repositoryChoice(options));
    await write(context, options, { source, target, label: 'writing' }, (selected) =>
      isFile
        ? convertLocal(path, target, { copyOtherFiles, ...selected })
        : reshard(path, target, { maxShardSize, copyOtherFiles, ...naming, ...selected }),
    );
    return 'done';
  },
};
