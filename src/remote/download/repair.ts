/**
 * Plans the repair of a local copy: which files of the repository it should have, and for damaged safetensors files
 * with digests, which tensors to fetch.
 */

import { closeSync, lstatSync, openSync, statSync } from 'node:fs';
import { findSnapshot } from '../../file/cache/cache.js';
import { hashFile } from '../../file/verification/hash-file.js';
import { tensorsLayout } from '../../file/verification/legacy-place.js';
import { DIGEST_DIGITS, DIGESTS_KEY, digestsProblem } from '../../header/tensor-digests.js';
import { readAsync } from '../../platform/io/pool-calls.js';
import { runAsync, runSync } from '../../work/work.js';
import type { HubAddress } from '../hub-address.js';
import type { RemoteFile } from '../remote-file.js';
import type { DownloadItem, DownloadItems, ReadRange } from './download-item.js';
import { findCopy } from './local-copy.js';
import { indexBytesOf, otherFiles, type PlaceOf } from './model-files.js';
import { neededFiles } from './needed-files.js';
import { isAlreadyThere } from './partial-files.js';
import { PIECE_BYTE_LENGTH } from './pieces.js';
import { planNamed, requireNoGit } from './plan-files.js';
import { headerOf } from './plan-whole.js';
import { receiveFile } from './receive.js';
import { isNamedSafetensors, type SourceFile, type SourceFiles } from './source-files.js';

/** A file that is repaired, or would be. */
export interface RepairedFile {
  /** Its path below the target. */
  readonly name: string;
  /** Why: the file is not there, has another length, or other bytes. */
  readonly reason: 'missing' | 'length' | 'bytes';
}

/** A commit that was recorded for the target of a repair. */
interface RecordedCommit {
  readonly commit: string;
  /** Whether its repository was recorded, too. */
  readonly isCertain: boolean;
}

/** The commit of the copy in a target; undefined for a target without records of the repository. */
export async function recordedCommit(
  { id }: HubAddress,
  target: string,
  signal: AbortSignal | undefined,
): Promise<RecordedCommit | undefined> {
  if (target === 'cache') {
    try {
      return { commit: runSync(findSnapshot(id, 'hf://')).commit, isCertain: true };
    } catch {
      return undefined;
    }
  }
  if (statSync(target, { throwIfNoEntry: false }) === undefined) return undefined;
  const { origins } = await findCopy(target, signal);
  const found = origins.find(({ cacheName = id.cacheName }) => cacheName === id.cacheName);
  return found && { commit: found.commit, isCertain: found.cacheName !== undefined };
}

/** The reason to repair a file whose bytes are not right. */
function reasonAt(path: string, { byteLength }: DownloadItem): RepairedFile['reason'] {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) return 'missing';
  return stats.size === byteLength ? 'bytes' : 'length';
}

/** The files that are not right. */
export async function filesToRepair(
  files: readonly DownloadItem[],
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<RepairedFile[]> {
  const found: RepairedFile[] = [];
  for (const file of files) {
    const path = placeOf(file);
    if (!(await isAlreadyThere(path, file, signal))) {
      found.push({ name: file.name, reason: reasonAt(path, file) });
    }
  }
  return found;
}

/**
 * Plans the files that a copy has or needs: those that are there, whatever their bytes, weights and configurations that
 * belong to them, and the small files next to the weights. Nothing else is replaced or deleted.
 *
 * @throws As {@link planNamed}
 */
export async function planRepair(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems | null> {
  const { hub, path } = source;
  const entries = await source.listAll(signal);
  if (entries === null || hub === null) return null;
  const listed = entries.map((entry) => entry.path.slice(hub.prefix.length));
  const isThere = (name: string): boolean =>
    lstatSync(placeOf({ name }), { throwIfNoEntry: false }) !== undefined;
  const present = new Set(listed.filter(isThere));
  if (present.size === 0) return null;
  // A damaged index lists other files than the Hub's.
  const read = async (name: string): Promise<Uint8Array> =>
    await indexBytesOf(await source.find(name, signal), placeOf({ name }), signal);
  const needed = await neededFiles(listed, present, read);
  const { others } = await otherFiles(source, placeOf, signal);
  const names = new Set([...present, ...needed, ...others.map(({ name }) => name)]);
  return await planNamed(source, requireNoGit([...names].sort(), path), placeOf, signal);
}

/** A source whose files keep their right tensors, and are listed in `repaired` when they are received. */
export function repairing(source: SourceFiles, repaired: RepairedFile[]): SourceFiles {
  return {
    ...source,
    find: async (name, signal) => repairable(await source.find(name, signal), repaired),
  };
}

/** The same file, received as {@link repairing} describes. */
function repairable(file: SourceFile, repaired: RepairedFile[]): SourceFile {
  const receive: DownloadItem['receive'] = async (target, place, scope) => {
    const { name } = file;
    // Missing ones are listed already.
    if (!repaired.some((one) => one.name === name)) {
      repaired.push({ name, reason: reasonAt(place, file) });
    }
    const own = await damagedFile(file, place, scope.signal);
    if (own === null) return await file.receive(target, place, scope);
    try {
      const whole = { ...file, segments: [{ file: file.file, begin: 0, end: file.byteLength }] };
      const mixed = { ...whole, segments: own.segments, whole: file.file };
      const again = { ...whole, whole: file.file };
      const received = await receiveFile(mixed, target, scope, again);
      const downloadedBytes = received.downloadedBytes - own.local.readBytes;
      const reusedBytes = Math.max(0, file.byteLength - downloadedBytes);
      return { hash: received.hash, downloadedBytes, reusedBytes };
    } finally {
      own.local.close();
    }
  };
  return { ...file, receive };
}

/** The bytes of a damaged file and of the Hub's, which together are correct. */
interface DamagedFile {
  readonly local: LocalFile;
  readonly segments: readonly ReadRange[];
}

/** Finds the right tensors of a damaged file; null where all of it is to be fetched. */
async function damagedFile(
  file: SourceFile,
  place: string,
  signal: AbortSignal,
): Promise<DamagedFile | null> {
  const { byteLength, hash } = file;
  const isLong = byteLength > PIECE_BYTE_LENGTH && hash !== null;
  const stats = statSync(place, { throwIfNoEntry: false });
  if (!isLong || !isNamedSafetensors(file.name, place) || stats?.isFile() !== true) return null;
  const header = await headerOf(file, signal).catch(() => null);
  signal.throwIfAborted();
  // Without a header that can be read, as from a server without ranges, the hash of all bytes decides.
  const text = header?.metadata?.get(DIGESTS_KEY);
  if (header === null || text === undefined) return null;
  if (digestsProblem(text, header.size) !== undefined) return null;
  const layout = await runAsync(tensorsLayout(header), signal);
  const options = { signal, onBytes: () => {}, wanted: new Set<never>() };
  const { ranges: found } = await hashFile(place, layout, options);
  const local = new LocalFile(place);
  const segments: ReadRange[] = [{ file: file.file, begin: 0, end: header.dataStart }];
  for (const [i, { name, begin, end }] of layout.ranges.entries()) {
    const digest = text.slice(i * DIGEST_DIGITS, (i + 1) * DIGEST_DIGITS);
    segments.push({ file: found.get(name) === digest ? local : file.file, begin, end });
  }
  return { local, segments };
}

/** Bytes of the damaged file, read as those of a remote one. */
class LocalFile implements Pick<RemoteFile, 'path' | 'readInto'> {
  readonly path: string;
  readonly #fd: number;
  /** Bytes that were read. */
  readBytes = 0;

  constructor(path: string) {
    this.path = path;
    this.#fd = openSync(path, 'r');
  }

  readInto: RemoteFile['readInto'] = async (target, position, { onBytes } = {}) => {
    const file = { fd: this.#fd, path: this.path };
    for (let done = 0; done < target.length; ) {
      const { bytesRead } = await readAsync(
        file,
        target,
        done,
        target.length - done,
        position + done,
      );
      // Changed meanwhile: the hash will differ.
      if (bytesRead === 0) target.fill(0, done);
      const count = bytesRead === 0 ? target.length - done : bytesRead;
      done += count;
      this.readBytes += count;
      onBytes?.(count);
    }
  };

  close(): void {
    closeSync(this.#fd);
  }
}
