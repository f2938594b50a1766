/**
 * Opens distributed checkpoints of PyTorch (torch.distributed.checkpoint): `.metadata` with `.distcp` files, or the
 * safetensors files of all ranks.
 */

import { basename, dirname, join } from 'node:path';
import {
  argumentRangeError,
  type OptionNames,
  requireInteger,
  requireOptions,
} from '../../errors/arguments.js';
import { FormatError } from '../../errors/errors.js';
import type { Checkpoint, CheckpointInfo } from '../../file/checkpoint/checkpoint.js';
import { insideOf, lastingNames, rejectLink } from '../../file/checkpoint/find-files.js';
import { IMPLIED_INDEX, METADATA_FILE } from '../../file/shards/incomplete-models.js';
import { requirePath } from '../../platform/io/paths.js';
import { STORAGE_OPTIONS, type StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { runAsync, type Work } from '../../work/work.js';
import { type ForeignFile, foreignCheckpoint } from '../foreign-checkpoint.js';
import { requireLimits } from '../limits.js';
import { lookInto } from '../open-file.js';
import { allPickleLimits } from '../pickle/limits.js';
import { TORCH_LIMITS, type TorchLimits } from '../torch/open.js';
import { openDistcp } from './distcp-parts.js';
import { filesOf, readMetadata } from './metadata-file.js';
import { assembled } from './pieces/assemble.js';
import { countRanks, type DescribedFile, describeParts } from './pieces/description.js';
import { invalid } from './pieces/distributed-error.js';
import { rankFileNames, requireAllRanks } from './pieces/rank-files.js';
import { type OpenedPart, openPart, partFiles } from './safetensors-parts.js';

/** Options of distributed checkpoints. */
export interface OpenDistributedOptions extends StorageOptions {
  /** Limits on the cost of pickles and archives. */
  readonly limits?: TorchLimits | undefined;
  /** Largest header of a safetensors file in bytes; 100,000,000 by default. */
  readonly maxHeaderByteLength?: number | undefined;
}

const OPTIONS: OptionNames<OpenDistributedOptions> = {
  ...STORAGE_OPTIONS,
  limits: TORCH_LIMITS,
  maxHeaderByteLength: true,
};

/**
 * Opens the checkpoint in a folder, or next to its `.metadata`: reads the description of every piece, maps the files,
 * and checks that the pieces of each tensor are complete. A tensor with one piece is a view of the mapped file; others
 * are assembled on use. Closing the checkpoint closes all files.
 *
 * `extra()` has the number of ranks with tensors, the pieces of each tensor, and the names of Python objects, which are
 * not read. Safetensors files do not record how many ranks there were: `isComplete` is null then.
 *
 * @throws FormatError `SAFETENSORS_INVALID_DISTRIBUTED`, `SAFETENSORS_INCOMPLETE_FILE`,
 *   `SAFETENSORS_UNSAFE_SHARD_NAME`; as `safeOpen`, `openTorchCheckpoint`
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS` for a rank whose file is missing
 * @throws Error Node's own `ENOENT`, `EACCES` and the like; `signal.reason`
 */
export async function openDistributed(
  path: string | URL,
  options: OpenDistributedOptions = {},
  signal?: AbortSignal | undefined,
): Promise<Checkpoint> {
  requireOptions(options, OPTIONS);
  const { maxHeaderByteLength } = options;
  if (maxHeaderByteLength !== undefined) {
    requireInteger('maxHeaderByteLength', maxHeaderByteLength, 1, Number.MAX_SAFE_INTEGER);
  }
  const given = requirePath('path', path);
  const folder = basename(given) === METADATA_FILE ? dirname(given) : given;
  return await runAsync(openFolder(folder, options), signal);
}

function* openFolder(folder: string, options: OpenDistributedOptions): Work<Checkpoint> {
  const names = yield* lastingNames(folder);
  if (names.includes(METADATA_FILE)) return yield* openListed(folder, options);
  return yield* openParts(folder, rankFileNames(names), options);
}

/** Opens `.metadata` and `.distcp` files. */
function* openListed(folder: string, options: OpenDistributedOptions): Work<Checkpoint> {
  const { limits: given, maxHeaderByteLength, ...storage } = options;
  if (maxHeaderByteLength !== undefined) {
    const expected = 'left out for .distcp files, which have no headers';
    throw argumentRangeError('maxHeaderByteLength', expected, maxHeaderByteLength);
  }
  const limits = requireLimits(given, TORCH_LIMITS);
  const pickle = allPickleLimits(limits);
  const path = join(folder, METADATA_FILE);
  yield* requireInside(folder, [METADATA_FILE]);
  const metadata = lookInto(path, (_, file) => {
    if (file.byteLength > pickle.maxPickleByteLength) {
      const message = `expected a pickle of at most ${pickle.maxPickleByteLength} bytes (limits.maxPickleByteLength), found ${file.byteLength}`;
      throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, { path });
    }
    return readMetadata(file.read(0, file.byteLength), pickle, { path });
  });
  const files = filesOf(metadata);
  yield* requireInside(folder, [...files]);
  const reading = { pickle, archive: limits, unknownGlobals: 'refuse' } as const;
  const opened: Storage[] = [];
  return yield* closingAfterError(opened, function* () {
    const parts = yield* openDistcp(
      folder,
      metadata,
      { storage, reading, layout: limits },
      (file) => opened.push(file),
    );
    const { tensors, problems } = parts;
    if (parts.files.length === 0) throw invalid('the checkpoint has no tensors', { path });
    const info = { ranks: countRanks(files), isComplete: true, objects: metadata.objects } as const;
    const described = describeParts(contentsOf(parts.files), tensors, info);
    const about: CheckpointInfo = { format: 'dcp', extra: () => described, problems };
    const base = foreignCheckpoint(parts.files, about, path);
    return yield* assembled(base, { tensors, source: { local: base }, problems, path });
  });
}

/** Opens the safetensors files of all ranks. */
function* openParts(
  folder: string,
  names: readonly string[],
  { limits, ...options }: OpenDistributedOptions,
): Work<Checkpoint> {
  if (limits !== undefined) {
    throw argumentRangeError('limits', 'left out for files in safetensors', limits);
  }
  const count = requireAllRanks(names, folder);
  yield* requireInside(folder, names);
  const opened: Storage[] = [];
  return yield* closingAfterError(opened, function* () {
    const parts: OpenedPart[] = [];
    for (const name of names) {
      const part = openPart(join(folder, name), name, options);
      opened.push(part.storage);
      parts.push(part);
      yield;
    }
    const { files, tensors } = partFiles(parts);
    const info = { ranks: count, isComplete: null, objects: [] };
    const described = describeParts(contentsOf(files), tensors, info);
    const about = { format: 'dcp', extra: () => described } as const;
    const base = foreignCheckpoint(files, about, join(folder, IMPLIED_INDEX));
    const source = { local: base };
    return yield* assembled(base, { tensors, source, problems: [], path: folder });
  });
}

/** Closes the opened files if the work fails. */
function* closingAfterError(
  opened: readonly Storage[],
  work: () => Work<Checkpoint>,
): Work<Checkpoint> {
  try {
    return yield* work();
  } catch (error) {
    for (const storage of opened) storage.close(false);
    throw error;
  }
}

function* requireInside(folder: string, names: readonly string[]): Work<void> {
  const isInside = yield* insideOf(folder);
  for (const name of names) {
    if (!(yield* isInside(join(folder, name)))) rejectLink(folder, name);
  }
}

/** The names and contents of open files. */
function contentsOf(files: readonly ForeignFile[]): DescribedFile[] {
  return files.map(({ path, shard: { byteLength, contents } }) => {
    return { name: basename(path), byteLength, contents };
  });
}
