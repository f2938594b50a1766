/** Deflated entries from their first byte to their last, of which only some chunks are in memory. */

import { Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';
import { storageFill } from '../platform/storage/storage-fill.js';
import { cut } from '../tensor/pieces.js';
import type { AsyncFill } from '../tensor/storage/made.js';
import type { Storage } from '../tensor/storage/storage.js';
import { brokenEntry, requireCrc32, requireInflatable } from './read-entry.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';

/** Deflated bytes that are read at once, and inflated bytes of a chunk. */
const CHUNK_BYTE_LENGTH = 2 ** 18;

/**
 * Fills pieces with what an entry inflates to, from `begin` on, which is near its start. They are asked for in
 * their order, each once. Inflates on the thread pool; checks length and CRC-32 with the last piece.
 *
 * @throws As `readEntry`
 */
export function inflateInOrder(
  archive: Storage,
  entry: ArchiveEntry,
  limits: ArchiveLimits,
  begin: number,
): AsyncFill {
  const chunks = inflatedChunks(archive, entry, limits);
  let chunk: Uint8Array = new Uint8Array();
  const next = async (): Promise<boolean> => {
    const { value, done } = await chunks.next();
    chunk = done === true ? new Uint8Array() : value;
    return done !== true;
  };
  const take = async (target: Uint8Array): Promise<void> => {
    for (let done = 0; done < target.length; ) {
      if (chunk.length === 0 && !(await next())) return;
      const part = chunk.subarray(0, target.length - done);
      target.set(part, done);
      done += part.length;
      chunk = chunk.subarray(part.length);
    }
  };
  let before: Promise<unknown> | undefined;
  return (target, position) => {
    before ??= take(new Uint8Array(begin));
    const isLast = begin + position + target.length === entry.byteLength;
    const piece = before.then(async () => {
      await take(target);
      // The end of the chunks is where they are checked.
      if (isLast) await next();
    });
    before = piece;
    return piece;
  };
}

async function* inflatedChunks(
  archive: Storage,
  entry: ArchiveEntry,
  limits: ArchiveLimits,
): AsyncGenerator<Uint8Array, void, void> {
  const context = { path: archive.path };
  requireInflatable(entry, limits, context);
  const inflater = createInflateRaw({ chunkSize: CHUNK_BYTE_LENGTH });
  const stored = Readable.from(storedChunks(archive, entry));
  stored.on('error', (error) => inflater.destroy(error));
  let byteLength = 0;
  let found = 0;
  try {
    for await (const chunk of stored.pipe(inflater)) {
      byteLength += chunk.length;
      if (byteLength > entry.byteLength) throw brokenEntry(entry, 'more', context);
      found = crc32(chunk, found);
      yield chunk;
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'Z_DATA_ERROR' && code !== 'Z_BUF_ERROR') throw error;
    throw brokenEntry(entry, 'broken ones', context, error);
  } finally {
    stored.destroy();
  }
  if (byteLength !== entry.byteLength) throw brokenEntry(entry, `${byteLength}`, context);
  const { bytesWritten } = inflater;
  if (bytesWritten !== entry.end - entry.begin) {
    throw brokenEntry(entry, `an end after ${bytesWritten}`, context);
  }
  requireCrc32(entry, found, context);
}

/** New memory for each: the inflater has it until it is used up. */
async function* storedChunks(
  archive: Storage,
  { begin, end }: ArchiveEntry,
): AsyncGenerator<Uint8Array, void, void> {
  const fill = storageFill(archive, 0);
  for (const chunk of cut(begin, end, CHUNK_BYTE_LENGTH)) {
    const bytes = new Uint8Array(chunk.end - chunk.begin);
    await fill(bytes, chunk.begin);
    yield bytes;
  }
}
