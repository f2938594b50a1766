/** `convert`: torch checkpoints and NumPy arrays to safetensors, also on the standard output. */

import { convert } from '../../index.js';
import { chosenAt } from '../sources/chosen-source.js';
import { placeOf } from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  type OptionValues,
  requireChoice,
  UsageError,
} from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import { OTHER_FILES, requireHere } from './split.js';
import {
  DIGESTS,
  DRY_RUN,
  FORCE,
  isDigested,
  isDryRun,
  SELECTION,
  SHARD_SIZE,
  shardSizeOf,
  write,
} from './written.js';

/** The target that stands for the standard output. */
const STANDARD_OUTPUT = '-';

/** Options of a target that is a folder. */
const OF_FOLDERS = ['max-shard-size', 'copy-other-files'];

/** Options of a target that is a path. */
const OF_PATHS = ['force'];

/** What the standard output replaces. */
const NOTHING_OLD = { deleted: [], replaced: [] };

/** The names of a GGUF model. */
function namingOf({ names }: OptionValues): { readonly naming?: 'hf' } {
  return names === undefined ? {} : { naming: requireChoice('names', names, ['hf'] as const) };
}

/** Writes one file to the standard output, and its report to the other one. */
async function convertToOutput(
  context: CommandContext,
  options: OptionValues,
  source: string,
): Promise<void> {
  const { stdout, stderr } = context;
  const given = OF_FOLDERS.find((name) => options[name] !== undefined);
  if (given !== undefined) throw new UsageError(`--${given} is for folders; - is one file`);
  const needless = OF_PATHS.find((name) => options[name] !== undefined);
  if (needless !== undefined)
    throw new UsageError(`--${needless} is for paths; - replaces nothing`);
  if (isDigested(options))
    throw new UsageError('--digests is for paths: - is written before all tensors are hashed');
  const isDry = isDryRun(options);
  if (stdout.isTerminal && !isDry) {
    throw new UsageError('expected the standard output to be a file or a pipe, found a terminal');
  }
  const reporting = isDry ? context : { ...context, stdout: stderr };
  const target = { source, target: STANDARD_OUTPUT, label: 'converting' };
  await write(
    reporting,
    options,
    target,
    async ({ dryRun, overwrite, digests, onProgress, ...selected }) => {
      const { path } = await chosenAt(source, repositoryChoice(options), context.signal);
      const { convertStream } = await import('../../write/convert/convert-stream.js');
      const made = await convertStream(path, {
        ...foreignChoices(options),
        ...namingOf(options),
        ...selected,
      });
      const { stream, close, overflowed, ...facts } = made;
      const outcome = {
        ...facts,
        files: [STANDARD_OUTPUT],
        index: null,
        ...NOTHING_OLD,
        copied: [],
      };
      if (dryRun) {
        close();
        return outcome;
      }
      let bytes = 0;
      for await (const piece of stream) {
        await context.writeBytes(piece);
        bytes += piece.length;
        onProgress({ bytes, totalBytes: stream.byteLength });
      }
      return { ...outcome, overflowed };
    },
  );
}

export const convertCommand: Command = {
  summary: 'Convert PyTorch, NumPy, GGUF, DDUF or safetensors to safetensors',
  usage:
    'convert SOURCE TARGET [--dtype DTYPE] [--dequantize DTYPE] [--root KEYS] [--unknown-globals placeholder]',
  description:
    'Convert a PyTorch checkpoint, NumPy arrays, GGUF or safetensors, also from an address, to safetensors. TARGET is a ' +
    'path that ends in .safetensors, or a folder, which gets shards and an index if the checkpoint is large, or - for ' +
    'the standard output. A Diffusers pipeline, a folder or a DDUF archive, becomes a folder with all of its files. ' +
    'Code in the source is never run, and its bytes are compared with their checksums. Weight files in TARGET are ' +
    'replaced only with --force. --digests needs a local SOURCE, and a path as TARGET.',
  example: 'convert model.ckpt model.safetensors --dtype BF16',
  options: {
    ...SELECTION,
    ...SHARD_SIZE,
    ...OTHER_FILES,
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
    names: {
      type: 'string',
      value: 'hf',
      choices: ['hf'],
      help: 'of a GGUF model of the Llama family: names and rows as Transformers has them, and config.json in a folder',
    },
    ...DIGESTS,
    ...FORCE,
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = placeOf(from);
    if (target === STANDARD_OUTPUT) {
      await convertToOutput(context, options, requireHere(from, '`convert SOURCE -`'));
      return 'done';
    }
    const maxShardSize = shardSizeOf(options);
    const foreign = { ...foreignChoices(options), ...namingOf(options) };
    const copyOtherFiles = options['copy-other-files'] === true || undefined;
    const { path, naming } = await chosenAt(source, repositoryChoice(options), context.signal);
    // A file has the name that was given.
    const named = target.endsWith('.safetensors') ? {} : naming;
    const layout = { maxShardSize, copyOtherFiles, ...named };
    await write(context, options, { source, target, label: 'converting' }, (selected) =>
      convert(path, target, { ...foreign, ...layout, ...selected }),
    );
    return 'done';
  },
};
