/** Computes the hashes by which models are looked up, in one pass over a file. */

import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import {
  blocksLength,
  PASSING_READ_BYTE_LENGTH,
  type PassedFile,
  passOver,
  sharedPassingMemory,
} from '../../platform/io/passing-file.js';
import { type HashedRange, RangeHashes, updateWithin } from '../../platform/io/range-hashes.js';
import { mayStartThread } from '../../platform/io/threads.js';
import type { FilePlace } from '../file.js';
import { HashThread } from './hash-thread.js';

/** AutoV1, the oldest of the hashes, takes the first digits of the hash of these bytes. */
export const AUTO_V1_BEGIN = 0x100000;
export const AUTO_V1_BYTE_LENGTH = 0x10000;
const AUTO_V1_DIGITS = 8;

/** Below this length, starting a thread for the second hash takes longer than the hash. */
const WORKER_BYTE_LENGTH = 64 * 2 ** 20;

/** The parts of a file to hash separately. */
export interface HashedLayout {
  /** Position of the end of the header. */
  readonly dataStart: number;
  /** Position of the bytes of `sshs_legacy_hash`; null for a file without such a hash. */
  readonly legacyBegin: number | null;
  /** Tensors, in the order of their bytes, without overlaps. */
  readonly ranges: readonly HashedRange[];
}

/** The hashes, in hexadecimal digits. */
export interface FileHashes {
  readonly byteLength: number;
  /** Of the whole file. */
  readonly sha256: string;
  /** Of the bytes after the header. */
  readonly dataSha256: string;
  readonly autoV1: string;
  /** As AutoV1, of the bytes from `legacyBegin` on; null without it. */
  readonly legacy: string | null;
  /** Eight digits. */
  readonly crc32: string;
  /** Of the ranges, by their names. */
  readonly ranges: ReadonlyMap<string, string>;
}

export interface HashOptions {
  readonly signal: AbortSignal | undefined;
  readonly onBytes: (byteLength: number) => void;
}

/** Pieces in memory at once, which are read or hashed. Measured with 4 to 8. */
const PIECES = 6;

/** Hashes bytes in order, from the start of the file to its end. */
class FileHasher {
  readonly #layout: HashedLayout;
  readonly #whole = createHash('sha256');
  /** Null when a thread of its own hashes these bytes. */
  readonly #data: Hash | null;
  readonly #autoV1 = createHash('sha256');
  readonly #legacy = createHash('sha256');
  readonly #ranges: RangeHashes;
  #crc = 0;
  #at = 0;

  constructor(layout: HashedLayout, hasData: boolean) {
    this.#layout = layout;
    this.#data = hasData ? createHash('sha256') : null;
    this.#ranges = new RangeHashes(layout.ranges);
  }

  update(piece: Uint8Array): void {
    const at = this.#at;
    const { dataStart, legacyBegin } = this.#layout;
    this.#whole.update(piece);
    updateWithin(this.#autoV1, piece, at, AUTO_V1_BEGIN, AUTO_V1_BEGIN + AUTO_V1_BYTE_LENGTH);
    if (legacyBegin !== null) {
      updateWithin(this.#legacy, piece, at, legacyBegin, legacyBegin + AUTO_V1_BYTE_LENGTH);
    }
    if (this.#data !== null) {
      updateWithin(this.#data, piece, at, dataStart, Number.POSITIVE_INFINITY);
    }
    this.#crc = crc32(piece, this.#crc);
    this.#ranges.add(piece);
    this.#at += piece.length;
  }

  /** Ends after the last byte; `ownThread` resolves with the thread's hash. */
  async digests(ownThread?: Promise<string>): Promise<FileHashes> {
    const short = (hash: Hash): string => hash.digest('hex').slice(0, AUTO_V1_DIGITS);
    return {
      byteLength: this.#at,
      sha256: this.#whole.digest('hex'),
      dataSha256: this.#data?.digest('hex') ?? ((await ownThread) as string),
      autoV1: short(this.#autoV1),
      legacy: this.#layout.legacyBegin === null ? null : short(this.#legacy),
      crc32: this.#crc.toString(16).padStart(8, '0'),
      ranges: this.#ranges.digests(),
    };
  }
}

/** Hashes a file from its pieces, in order. */
export async function hashPieces(
  pieces: AsyncIterable<Uint8Array>,
  layout: HashedLayout,
  { signal, onBytes }: HashOptions,
): Promise<FileHashes> {
  const hasher = new FileHasher(layout, true);
  for await (const piece of pieces) {
    signal?.throwIfAborted();
    hasher.update(piece);
    onBytes(piece.length);
  }
  return await hasher.digests();
}

/** Opens a file, and hashes it as `hashOpened`. */
export async function hashFile(
  path: string,
  layout: HashedLayout,
  options: HashOptions,
): Promise<FileHashes> {
  const handle = await open(path);
  try {
    const { size } = await handle.stat();
    return await hashOpened({ fd: handle.fd, path, byteLength: size }, layout, options);
  } finally {
    await handle.close();
  }
}

/** Hashes a file that is a part of another one. */
export async function hashPart(
  { path, begin, end }: FilePlace,
  layout: HashedLayout,
  options: HashOptions,
): Promise<FileHashes> {
  const handle = await open(path);
  try {
    const range = { start: begin, end: end - 1, autoClose: false };
    const highWaterMark = PASSING_READ_BYTE_LENGTH;
    return await hashPieces(handle.createReadStream({ ...range, highWaterMark }), layout, options);
  } finally {
    await handle.close();
  }
}

/**
 * Reads the file once from start to end, and hashes it. For a long file, the hash of the tensors runs on a thread of
 * its own, because one hash takes longer than reading.
 *
 * @throws FileChangedError when the file ends early; errors of the system; `signal.reason`
 */
export async function hashOpened(
  file: PassedFile,
  layout: HashedLayout,
  { signal, onBytes }: HashOptions,
): Promise<FileHashes> {
  const { byteLength } = file;
  const memory = sharedPassingMemory(
    Math.min(PIECES * PASSING_READ_BYTE_LENGTH, blocksLength(byteLength)),
  );
  const isLong = byteLength >= WORKER_BYTE_LENGTH && mayStartThread();
  const thread = isLong ? new HashThread(memory) : undefined;
  const hasher = new FileHasher(layout, thread === undefined);
  const use = async (begin: number, end: number, position: number) => {
    signal?.throwIfAborted();
    const onThread = thread?.update(begin + Math.max(0, layout.dataStart - position), end);
    hasher.update(memory.subarray(begin, end));
    onBytes(end - begin);
    await onThread;
  };
  try {
    await passOver(file, memory, use);
    return await hasher.digests(thread?.digest());
  } finally {
    await thread?.end();
  }
}
