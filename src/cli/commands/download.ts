/** `download`: remote files onto this machine. */

import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bytesText, plural } from '../output/numbers.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { isRemote } from '../sources/open-source.js';
import {
  type Command,
  InterruptedError,
  type OptionValues,
  printResult,
  UsageError,
} from './command.js';
import {
  DEFAULT_SHARD_SIZE,
  DRY_RUN,
  planned,
  SELECTION,
  SHARD_SIZE,
  selecting,
  shardSizeOf,
  uncastLines,
} from './written.js';

/** What was downloaded, or would be, as `--json` has it. */
interface DownloadCommandResult {
  readonly source: string;
  /** The file or folder that was made. */
  readonly path: string;
  readonly dryRun: boolean;
  readonly commit: string | null;
  /** With `--dry-run` those with tensors alone. */
  readonly files: readonly { readonly name: string; readonly byteLength: number | null }[];
  readonly byteLength: number;
  readonly receivedByteLength: number;
  readonly presentByteLength: number;
  /** Names of tensors that were not cast because they belong to quantized weights. */
  readonly uncast: readonly string[];
}

function downloadLines(result: DownloadCommandResult, style: Style): readonly string[] {
  const { path, dryRun, commit, files, byteLength } = result;
  const { receivedByteLength, presentByteLength, uncast } = result;
  const amounts = dryRun
    ? 'nothing fetched (--dry-run)'
    : `${bytesText(receivedByteLength)} received, ${bytesText(presentByteLength)} were there`;
  return [
    `${style.bold(visible(path, SHOWN_NAME_LENGTH))}: ${plural(files.length, 'file')}, ${bytesText(byteLength)}; ${amounts}`,
    ...(commit === null ? [] : [style.dim(`commit ${commit}`)]),
    ...files.map(({ name, byteLength: length }) => {
      return `  ${visible(name, SHOWN_NAME_LENGTH)}${length === null ? '' : `  ${bytesText(length)}`}`;
    }),
    ...uncastLines(uncast),
  ];
}

/** Parts received, as `download` names them. */
const PARTIAL = /^\.safetensors-mmap-[0-9a-f]{16}-[0-9a-f]{16}\.incomplete$/;

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Whether a download that was interrupted has left something to go on with. */
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
      ? 'interrupted; the same command goes on where it stopped, also with a URL that was signed anew'
      : 'interrupted; nothing was received that another call could use',
  );
}

/** A name as it stands in a URL, without `%20` and the like. */
function decoded(name: string): string {
  try {
    const text = decodeURIComponent(name);
    return /[/\\]/.test(text) ? name : text;
  } catch {
    return name;
  }
}

/** Suggests the id of a repository for its bare name. */
function repositoryHint(source: string): string {
  const isName = /^\w[\w.-]*(?:\/\w[\w.-]*)+(?:@[\w./-]+)?$/.test(source);
  return isName && !existsSync(source) ? `; did you mean hf://${source}?` : '';
}

/** Where one file would go, as `download` decides it: into a folder by the name that its address has. */
function plannedTarget(source: string, target: string): string {
  const [path = ''] = source.split(/[?#]/);
  const name = decoded(path.slice(path.lastIndexOf('/') + 1));
  const isFile = target !== 'cache' && name.endsWith('.safetensors') && isFolder(target);
  return isFile ? join(target, name) : target;
}

/** The files with tensors that would be there, and their bytes: of tensors written anew these, else the whole files. */
async function planDownload(
  source: string,
  target: string,
  options: OptionValues,
  signal: AbortSignal,
): Promise<{ names: readonly string[]; byteLength: number; uncast: readonly string[] }> {
  const { filter, exclude, dtype } = options;
  const size = shardSizeOf(options);
  const isPart = filter !== undefined || exclude !== undefined;
  if (isPart || dtype !== undefined || size !== undefined) {
    const maxShardSize = size ?? DEFAULT_SHARD_SIZE;
    const { files, ...plan } = await planned(options, { source, target, maxShardSize }, signal);
    return { names: files, ...plan };
  }
  const { openRemote } = await import('../../remote.js');
  const checkpoint = await openRemote(source, { signal });
  try {
    return {
      names: checkpoint.shards,
      byteLength: await checkpoint.byteLength({ signal }),
      uncast: [],
    };
  } finally {
    checkpoint.close();
  }
}

export const downloadCommand: Command = {
  summary: 'remote files onto this machine',
  usage: 'download SOURCE TARGET',
  description:
    'Downloads a model of the Hub or of any server, with the files beside it, checked by hash, to a path, into a ' +
    "folder, or into the Hub's cache (TARGET is then the word cache). One file gets its own name in a folder that is " +
    'there, such as `.`. Called again it goes on where it broke. With ' +
    '--filter, --exclude or --dtype it fetches only these tensors, and writes them anew.',
  options: { ...SELECTION, ...SHARD_SIZE, ...DRY_RUN },
  positionals: [2, 2],
  async run(context, [source = '', target = ''], options) {
    if (!isRemote(source)) {
      throw new UsageError(`expected a URL, or hf://org/name${repositoryHint(source)}`);
    }
    const { signal, stderr } = context;
    const maxShardSize = shardSizeOf(options);
    const remote = await import('../../remote.js');
    if (options['dry-run'] === true) {
      const path = maxShardSize === undefined ? plannedTarget(source, target) : target;
      const { names, byteLength, uncast } = await planDownload(source, path, options, signal);
      const files = names.map((name) => ({ name, byteLength: null }));
      printResult<DownloadCommandResult>(
        context,
        options,
        {
          ...{ source, path, dryRun: true, commit: null, files, byteLength },
          ...{ receivedByteLength: 0, presentByteLength: 0, uncast },
        },
        downloadLines,
      );
      return 'done';
    }
    const progress = progressOn(stderr, 'downloading');
    const { onProgress } = progress;
    const downloaded = await selecting(options, (selection) =>
      remote.download(source, target, {
        ...selection,
        ...(maxShardSize === undefined ? {} : { maxShardSize }),
        ...{ signal, onProgress },
      }),
    )
      .catch((error: unknown) => {
        throw signal.aborted ? interruptedDownload(target) : error;
      })
      .finally(() => progress.end());
    const { path, commit, files, byteLength, uncast } = downloaded;
    const { receivedByteLength, presentByteLength } = downloaded;
    printResult<DownloadCommandResult>(
      context,
      options,
      {
        ...{ source, path, dryRun: false, commit, byteLength },
        ...{ receivedByteLength, presentByteLength, uncast },
        // One file has the name that it got here.
        files: files.map(({ name, path: at, byteLength: length }) => {
          return { name: at === path ? basename(path) : name, byteLength: length };
        }),
      },
      downloadLines,
    );
    return 'done';
  },
};
