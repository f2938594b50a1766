/** `download`: remote files onto this machine. */

import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import {
  type DownloadOptions,
  download,
  type RepairedFile,
  type ReplacedFile,
} from '../../index.js';
import { formatBytes, plural } from '../../inspect/format.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { isRemote } from '../sources/open-source.js';
import {
  type Command,
  type CommandOptions,
  InterruptedError,
  type OptionValues,
  optionValues,
  printResult,
  UsageError,
} from './command.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import {
  ambiguityLines,
  type CastResult,
  castLines,
  castResult,
  DRY_RUN,
  deletedLines,
  excludedLines,
  FORCE,
  forceLines,
  isDryRun,
  isForced,
  replacedLines,
  requireCast,
  requirePath,
  SELECTION,
  SHARD_SIZE,
  selecting,
  shardSizeOf,
  unmatchedLines,
} from './written.js';

/** Downloaded or planned files, for `--json`. */
interface DownloadCommandResult extends CastResult {
  readonly source: string;
  /** The new file or folder. */
  readonly path: string;
  readonly dryRun: boolean;
  readonly commit: string | null;
  readonly files: readonly { readonly name: string; readonly byteLength: number }[];
  readonly byteLength: number;
  readonly downloadedBytes: number;
  readonly reusedBytes: number;
  /** Names of an earlier checkpoint's files to delete, or deleted. */
  readonly deleted: readonly string[];
  /** Existing files that were replaced or deleted, or would be. */
  readonly replaced: readonly ReplacedFile[];
  /** In a preview without `--force` that the command itself needs; absent otherwise. */
  readonly needsForce?: true;
  /** With `--repair`: the files that differed, or would be fetched, and why; absent without it. */
  readonly repaired?: readonly RepairedFile[];
  /** Options with patterns that no tensor matches; absent without such options. */
  readonly unmatched?: readonly string[];
  /** Names of the tensors that `--filter` and `--exclude` left out. */
  readonly excluded: readonly string[];
  /** Names that several shards have, one tensor of each written; absent without such names. */
  readonly duplicates?: readonly string[];
  /** Keys of metadata with different values, at most one of which was written; absent without such keys. */
  readonly conflicts?: readonly string[];
}

/** Patterns of the paths of files. */
const FILES: CommandOptions = {
  files: {
    type: 'string',
    multiple: true,
    value: 'PATTERN',
    help: "any files with matching paths, such as '*.json', 'onnx/*' or '*' for all; repeatable",
  },
  ignore: {
    type: 'string',
    multiple: true,
    value: 'PATTERN',
    help: 'exclude these files from all, or from those of --files; repeatable',
  },
};

/** The patterns of `--files` and `--ignore`. */
function patternsOf(options: OptionValues): Pick<DownloadOptions, 'files' | 'ignore'> {
  const given = (name: string): string[] | undefined =>
    options[name] === undefined ? undefined : optionValues(options, name);
  return { files: given('files'), ignore: given('ignore') };
}

const REPAIR: CommandOptions = {
  repair: {
    type: 'boolean',
    help: 'fetch only files that differ from the Hub or are missing, at the commit of the copy in TARGET',
  },
};

/** The reasons to repair a file. */
const REASONS: Readonly<Record<RepairedFile['reason'], string>> = {
  missing: 'missing',
  length: 'another length',
  bytes: 'other bytes',
};

/** The files that differed or would be fetched. */
function repairedLines(
  { repaired, dryRun }: DownloadCommandResult,
  style: Style,
): readonly string[] {
  if (repaired === undefined) return [];
  if (repaired.length === 0) return ['nothing to repair'];
  return repaired.map(({ name, reason }) => {
    const verb = dryRun ? 'would be repaired' : 'repaired';
    return `${visible(name, SHOWN_NAME_LENGTH)}: ${verb}, ${style.warning(REASONS[reason])}`;
  });
}

/** A dry run receives nothing. */
const NOTHING_DOWNLOADED = { downloadedBytes: 0, reusedBytes: 0 };

function downloadLines(result: DownloadCommandResult, style: Style): readonly string[] {
  const { path, dryRun, commit, files, byteLength } = result;
  const { downloadedBytes, reusedBytes, deleted, replaced, excluded } = result;
  const amounts = dryRun
    ? 'nothing fetched (--dry-run)'
    : `${formatBytes(downloadedBytes)} received, ${formatBytes(reusedBytes)} already there`;
  return [
    `${style.bold(visible(path, SHOWN_NAME_LENGTH))}: ${plural(files.length, 'file')}, ${formatBytes(byteLength)}; ${amounts}`,
    ...(commit === null ? [] : [style.dim(`commit ${commit}`)]),
    ...files.map(
      (file) => `  ${visible(file.name, SHOWN_NAME_LENGTH)}  ${formatBytes(file.byteLength)}`,
    ),
    ...repairedLines(result, style),
    ...excludedLines(excluded, dryRun),
    ...ambiguityLines(result, style),
    ...unmatchedLines(result.unmatched, style),
    ...castLines(result, style),
    ...replacedLines(replaced, deleted, dryRun),
    ...deletedLines(deleted, dryRun),
    ...forceLines(result, style),
  ];
}

/** Names of partial files of `download`. */
const PARTIAL = /^\.safetensors-mmap-[0-9a-f]{16}-[0-9a-f]{16}\.incomplete$/;

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Whether an interrupted download left partial files to continue. */
function hasParts(target: string): boolean {
  if (target === 'cache') return true;
  try {
    const folder = isFolder(target) ? target : dirname(target);
    return readdirSync(folder).some((name) => PARTIAL.test(name));
  } catch {
    return false;
  }
}

function interruptedDownload(target: string): InterruptedError {
  return new InterruptedError(
    hasParts(target)
      ? 'interrupted; run the same command again to continue, even with a newly signed URL'
      : 'interrupted; the next call starts from the beginning',
  );
}

/** Suggests the id of a repository for its bare name. */
function repositoryHint(source: string): string {
  const isName = /^\w[\w.-]*(?:\/\w[\w.-]*)+(?:@[\w./-]+)?$/.test(source);
  return isName && !existsSync(source) ? `; did you mean hf://${source}?` : '';
}

export const downloadCommand: Command = {
  summary: 'Download models from the Hub or a server',
  usage: 'download SOURCE TARGET',
  description:
    'Download a model or a Diffusers pipeline from the Hub, or a model from any server, with its sibling files, and ' +
    'check hashes. TARGET is a path that ends in .safetensors, for one file, or a folder, such as `.`, or the word ' +
    'cache for the Hub cache. Weight files in TARGET are replaced only with --force, or if they came from the same ' +
    'repository. Run it again to continue an interrupted download. With --filter, --exclude, --dtype or --dequantize ' +
    'it fetches only these tensors and writes new files. With --files and --ignore it takes any files of a ' +
    'repository, of a dataset (hf://datasets/org/name) or of a Space. With --repair, fetch only files of a copy ' +
    'that differ; --dry-run lists them.',
  example: 'download hf://org/name my-model --dtype F16',
  options: {
    ...SELECTION,
    ...SHARD_SIZE,
    ...FILES,
    ...REPAIR,
    ...REPOSITORY,
    ...FORCE,
    ...DRY_RUN,
  },
  positionals: [2, 2],
  async run(context, [source = '', target = ''], options) {
    if (!isRemote(source)) {
      throw new UsageError(`expected a URL, or hf://org/name${repositoryHint(source)}`);
    }
    requirePath(target);
    const { signal, stderr } = context;
    const maxShardSize = shardSizeOf(options);
    const dryRun = isDryRun(options);
    const progress = progressOn(stderr, 'downloading');
    const { onProgress } = progress;
    const chosen = { ...patternsOf(options), ...repositoryChoice(options), maxShardSize };
    const repair = options['repair'] === true;
    const choices = { ...chosen, repair, signal, onProgress, dryRun, overwrite: isForced(options) };
    await requireCast(context, options, source, () =>
      selecting(options, (selection) =>
        download(source, target, { ...selection, ...choices, dryRun: true }),
      ),
    );
    const downloaded = await selecting(options, (selection) =>
      download(source, target, { ...selection, ...choices }),
    )
      .catch((error: unknown) => {
        throw signal.aborted ? interruptedDownload(target) : error;
      })
      .finally(() => progress.end());
    const { path, commit, files, byteLength, deleted, replaced, excluded, unmatched } = downloaded;
    const { duplicates, conflicts } = downloaded;
    const received = 'downloadedBytes' in downloaded ? downloaded : NOTHING_DOWNLOADED;
    const { downloadedBytes, reusedBytes } = received;
    printResult<DownloadCommandResult>(
      context,
      options,
      {
        ...{ source, path, dryRun, commit, byteLength },
        ...{ downloadedBytes, reusedBytes, deleted, replaced, excluded },
        ...castResult(downloaded),
        ...('needsOverwrite' in downloaded ? { needsForce: true } : {}),
        ...(repair ? { repaired: downloaded.repaired } : {}),
        ...(duplicates.length === 0 ? {} : { duplicates }),
        ...(conflicts.length === 0 ? {} : { conflicts }),
        ...(unmatched.length === 0 ? {} : { unmatched }),
        // A single file is listed by its name in the target.
        files: files.map(({ name, path: at, byteLength: length }) => {
          return { name: at === path ? basename(path) : name, byteLength: length };
        }),
      },
      downloadLines,
    );
    return 'done';
  },
};
