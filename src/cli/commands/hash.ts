/** `hash`: hashes by which sites identify models. */

import { statSync } from 'node:fs';
import { cachedSha256 } from '../../file/cache/cache-layout.js';
import { isIndexPath } from '../../file/shards/file-choice.js';
import { type DeclaredHash, declaredHashesOf } from '../../file/verification/declared-hashes.js';
import type { HashOptions } from '../../file/verification/hash-file.js';
import { runAsync } from '../../work/work.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { filesOf, type HashableFile } from '../sources/hashable-files.js';
import {
  foreignFormatError,
  modelsOf,
  type OpenedSource,
  openSource,
} from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  type OptionValues,
  type Outcome,
  printResult,
  UsageError,
} from './command.js';
import { editFile, requireLocal, requireNoChoice, setHashes } from './metadata-edit.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

/** Digits of the short forms. */
const AUTO_V2_LENGTH = 10;
const AUTO_V3_LENGTH = 12;

/** The hashes of one file, for `--json`. */
interface HashedFile {
  readonly name: string;
  readonly byteLength: number;
  readonly sha256: string;
  readonly autoV1: string;
  readonly autoV2: string;
  /** These three are of the bytes after the header of a safetensors file; null for other formats. */
  readonly autoV3: string | null;
  readonly modelspec: string | null;
  readonly sshs: string | null;
  readonly crc32: string;
  readonly declaredHashes: readonly DeclaredHash[];
  readonly tensors?: Readonly<Record<string, string>>;
}

interface HashResult {
  readonly source: string;
  /** Whether no declared hash is wrong. */
  readonly ok: boolean;
  readonly files: readonly HashedFile[];
}

/** The files of a source. It must stay open while they are hashed. */
async function hashableFilesOf(opened: OpenedSource, signal: AbortSignal): Promise<HashableFile[]> {
  const files: HashableFile[] = [];
  for (const [folder, model] of modelsOf(opened)) {
    for (const file of await filesOf(model, signal)) {
      files.push(folder === '' ? file : { ...file, file: `${folder}/${file.file}` });
    }
  }
  return files;
}

/** Hashes one file and compares the hashes with those that the file declares. */
async function hashOne(
  file: HashableFile,
  isEach: boolean,
  options: HashOptions,
): Promise<HashedFile> {
  const hashes = await file.hash(isEach, options);
  const { byteLength, sha256, dataSha256, autoV1, crc32 } = hashes;
  const { path, hasHeader } = file;
  const { signal } = options;
  const cached = path === null ? null : await runAsync(cachedSha256(path), signal);
  const declared = declaredHashesOf(cached, file.metadata ?? new Map(), hashes);
  return {
    ...{ name: file.file, byteLength, sha256, autoV1 },
    autoV2: sha256.slice(0, AUTO_V2_LENGTH),
    autoV3: hasHeader ? dataSha256.slice(0, AUTO_V3_LENGTH) : null,
    modelspec: hasHeader ? `0x${dataSha256}` : null,
    sshs: hasHeader ? dataSha256 : null,
    crc32,
    declaredHashes: await runAsync(declared, signal),
    ...(isEach ? { tensors: Object.fromEntries(hashes.ranges) } : {}),
  };
}

/** Hashes files one by one, with one progress for all. */
async function hashAll(
  files: readonly HashableFile[],
  isEach: boolean,
  { stderr, signal }: CommandContext,
): Promise<HashedFile[]> {
  const totalBytes = files.reduce((sum, file) => sum + file.byteLength, 0);
  const progress = progressOn(stderr, 'hashing');
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    progress.onProgress({ bytes, totalBytes });
  };
  try {
    const hashed: HashedFile[] = [];
    for (const file of files) hashed.push(await hashOne(file, isEach, { signal, onBytes }));
    return hashed;
  } finally {
    progress.end();
  }
}

/** The outcome of a comparison. */
function formatDeclared({ by: key, declared, ok, tensor }: DeclaredHash, style: Style): string {
  const by = tensor === undefined ? key : `${key} of ${visible(tensor, SHOWN_NAME_LENGTH)}`;
  if (ok === true) return `${by}: as declared`;
  const label = `${by}: declares ${visible(declared, SHOWN_NAME_LENGTH)}`;
  return ok === false
    ? style.error(`${label}, which is wrong`)
    : style.warning(`${label}, from before a change of the metadata`);
}

function hashLines(file: HashedFile, style: Style): string[] {
  const {
    sha256,
    autoV1,
    autoV2,
    autoV3,
    modelspec,
    sshs,
    crc32,
    declaredHashes,
    tensors = {},
  } = file;
  return [
    style.bold(visible(file.name, SHOWN_NAME_LENGTH)),
    ...infoLines(
      (
        [
          ['SHA-256', sha256],
          ['AutoV1', autoV1],
          ['AutoV2', autoV2],
          ['AutoV3', autoV3],
          ['modelspec', modelspec],
          ['sshs', sshs],
          ['CRC32', crc32],
        ] as const
      ).flatMap(([name, hash]) => (hash === null ? [] : [[name, hash] as const])),
      style.dim,
    ),
    ...declaredHashes.map((hash) => formatDeclared(hash, style)),
    // In the format of sha256sum. Keep names whole: cut ones would look alike next to the digits.
    ...Object.entries(tensors).map(
      ([name, hash]) => `${hash}  ${visible(name, SHOWN_NAME_LENGTH)}`,
    ),
  ];
}

/** Whether a path is one file with tensors: no folder, and no index. */
function isOneFile(path: string): boolean {
  return !isIndexPath(path) && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true;
}

/**
 * The safetensors files of a local model or pipeline.
 *
 * @throws FormatError `SAFETENSORS_FOREIGN_FORMAT` for another format
 */
async function safetensorsFilesOf(
  path: string,
  options: OptionValues,
  { signal }: CommandContext,
): Promise<string[]> {
  const error = await foreignFormatError(path);
  if (error !== undefined) throw error;
  const choice = repositoryChoice(options);
  const opened = await openSource(path, { signal, storage: 'read', choice });
  try {
    const files = await hashableFilesOf(opened, signal);
    return files.map((file) => file.path as string);
  } finally {
    opened.close();
  }
}

/** Puts the digests of all tensors into the metadata of a file, or of each file of a model. */
async function writeDigests(
  context: CommandContext,
  options: OptionValues,
  source: string,
): Promise<Outcome> {
  if (options['all'] === true)
    throw new UsageError('--all prints digests, and --write writes them');
  const path = requireLocal(source);
  const hashes = { digests: true };
  if (isOneFile(path)) {
    requireNoChoice('hash FILE --write', options);
    return await editFile(context, options, path, new Map(), hashes);
  }
  // Closed before it is written: Windows replaces no open file.
  const paths = await safetensorsFilesOf(path, options, context);
  await setHashes(context, options, source, paths, hashes);
  return 'done';
}

export const hashCommand: Command = {
  summary: 'Print hashes that identify a model',
  usage: 'hash SOURCE [--all | --write [--dry-run]]',
  description:
    'Read or fetch each file once and print its SHA-256, AutoV1, AutoV2, AutoV3, the hashes of ModelSpec and ' +
    "of kohya's scripts (sshs), and CRC32. Compare them with those that the metadata and the Hub cache declare: " +
    'exit code 1 if one is wrong. --write puts the SHA-256 of every tensor into the metadata of a local file, or of ' +
    'each file of a local model, where verify finds it.',
  example: 'hash model.safetensors --all',
  options: {
    all: { type: 'boolean', help: 'also the SHA-256 of every tensor' },
    write: { type: 'boolean', help: 'write the SHA-256 of every tensor into the metadata' },
    'dry-run': { type: 'boolean', help: 'with --write: report the change, and write nothing' },
    ...REPOSITORY,
  },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { signal } = context;
    if (options['write'] === true) return await writeDigests(context, options, source);
    if (options['dry-run'] === true) throw new UsageError('--dry-run is for --write');
    const choice = repositoryChoice(options);
    const opening = { signal, storage: 'read', verify: false, choice } as const;
    const opened = await openSource(source, opening);
    let files: HashedFile[];
    try {
      const found = await hashableFilesOf(opened, signal);
      files = await hashAll(found, options['all'] === true, context);
    } finally {
      opened.close();
    }
    const ok = files.every(({ declaredHashes }) =>
      declaredHashes.every((hash) => hash.ok !== false),
    );
    printResult<HashResult>(context, options, { source, ok, files }, (result, style) =>
      result.files.flatMap((file, i) => [...(i === 0 ? [] : ['']), ...hashLines(file, style)]),
    );
    return ok ? 'done' : 'no';
  },
};
