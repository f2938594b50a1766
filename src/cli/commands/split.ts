/** `split` and `join`: write a checkpoint with another size of files. */

import { convert } from '../../index.js';
import { DUPLICATE_RULES } from '../../write/convert/duplicate-rules.js';
import { chosenAt } from '../sources/chosen-source.js';
import { isRemote, localPath, placeOf } from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  type CommandOptions,
  type OptionValues,
  requireChoice,
  UsageError,
} from './command.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import {
  DIGESTS,
  DRY_RUN,
  FORCE,
  requirePath,
  SELECTION,
  SHARD_SIZE,
  shardSizeOf,
  write,
} from './written.js';

/** Files next to the weights. */
export const OTHER_FILES: CommandOptions = {
  'copy-other-files': { type: 'boolean', help: 'also copy config, tokenizer and other files' },
};

/** The option for names that several sources have. */
const DUPLICATES: CommandOptions = {
  duplicates: {
    type: 'string',
    value: 'RULE',
    choices: DUPLICATE_RULES,
    help: 'for a name in several sources: error (the default), or take the first or the last',
  },
};

/** Options of one source, which the writer has and this has not. */
const OF_ONE = ['dtype', 'dequantize', 'copy-other-files'];

/** The path of a local source. Throws a UsageError for a remote one; `what` names the form that cannot take it. */
export function requireHere(source: string, what: string): string {
  if (!isRemote(source)) return localPath(source);
  throw new UsageError(
    `expected a local source: ${what} reads no addresses; \`convert SOURCE TARGET\` does`,
  );
}

export const splitCommand: Command = {
  summary: 'Write a checkpoint as shards with an index',
  usage: 'split SOURCE FOLDER [--max-shard-size SIZE]',
  description:
    "Write the tensors into a folder, as files of limited size with an index, as the Hub's libraries do. The " +
    'folder may be that of the source: the new files replace the old ones. Other weight files in it are ' +
    'replaced only with --force.',
  example: 'split model.safetensors sharded --max-shard-size 5GB',
  options: {
    ...SHARD_SIZE,
    ...SELECTION,
    ...OTHER_FILES,
    ...REPOSITORY,
    ...DIGESTS,
    ...FORCE,
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [from = '', target = ''], options) {
    const source = placeOf(from);
    requirePath(target);
    const maxShardSize = shardSizeOf(options);
    const copyOtherFiles = options['copy-other-files'] === true || undefined;
    const { path, naming } = await chosenAt(source, repositoryChoice(options), context.signal);
    await write(context, options, { source, target, label: 'writing' }, (selected) =>
      convert(path, target, { maxShardSize, copyOtherFiles, ...naming, ...selected }),
    );
    return 'done';
  },
};

export const joinCommand: Command = {
  summary: 'Write shards or several files as one file',
  usage: 'join SHARDS… -o TARGET',
  description:
    'Write all tensors of a sharded checkpoint, or of several files (join A B C -o TARGET), into one file. TARGET is ' +
    'a path that ends in .safetensors, or a folder, which gets model.safetensors. Weight files in TARGET are ' +
    'replaced only with --force.',
  example: 'join sharded -o model.safetensors',
  options: {
    output: { type: 'string', short: 'o', value: 'TARGET', help: 'the new file, or its folder' },
    ...SELECTION,
    ...DUPLICATES,
    ...OTHER_FILES,
    ...REPOSITORY,
    ...DIGESTS,
    ...FORCE,
    ...DRY_RUN,
  },
  positionals: [1, Number.POSITIVE_INFINITY],
  async run(context, arguments_, options) {
    const { output: target } = options;
    if (typeof target !== 'string') {
      throw new UsageError('-o TARGET is missing: the new file, or its folder');
    }
    requirePath(target);
    const [first = ''] = arguments_;
    if (arguments_.length > 1) {
      const sources = arguments_.map((one) => requireHere(one, 'join of several sources'));
      await joinSeveral(context, sources, target, options);
      return 'done';
    }
    const source = placeOf(first);
    const isFile = target.endsWith('.safetensors');
    const copyOtherFiles = options['copy-other-files'] === true || undefined;
    const maxShardSize = Number.POSITIVE_INFINITY;
    const { path, naming } = await chosenAt(source, repositoryChoice(options), context.signal);
    await write(context, options, { source, target, label: 'writing' }, (selected) =>
      isFile
        ? convert(path, target, { copyOtherFiles, ...selected })
        : convert(path, target, { maxShardSize, copyOtherFiles, ...naming, ...selected }),
    );
    return 'done';
  },
};

/** Joins local sources of any format; throws a UsageError for options of one source. */
async function joinSeveral(
  context: CommandContext,
  sources: readonly string[],
  target: string,
  options: OptionValues,
): Promise<void> {
  const given = OF_ONE.find((name) => options[name] !== undefined);
  if (given !== undefined)
    throw new UsageError(`--${given} is for one source: convert each before`);
  const duplicates = requireChoice('duplicates', options['duplicates'] ?? 'error', DUPLICATE_RULES);
  const { joinSources } = await import('../../write/convert/join.js');
  const choice = repositoryChoice(options);
  const chosen = await Promise.all(
    sources.map((source) => chosenAt(source, choice, context.signal)),
  );
  const paths = chosen.map(({ path }) => path);
  // A file has the name that was given.
  const naming = target.endsWith('.safetensors') ? {} : chosen[0]?.naming;
  const labels = { source: sources.join(' '), target, label: 'writing' };
  await write(context, options, labels, ({ dtype: _, dequantize: __, ...selected }) =>
    joinSources(paths, target, { duplicates, ...naming, ...selected }),
  );
}
