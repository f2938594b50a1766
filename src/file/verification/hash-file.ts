/** Computes the hashes by which models are looked up, in one pass over a file. */

import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import {
  DIRECT_READ_BYTE_LENGTH,
  type PassedFile,
  passOver,
  reuseSharedMemory,
  sharedDirectMemory,
} from '../../platform/io/direct-io.js';
import { type HashedRange, RangeHashes, updateWithin } from '../../platform/io/range-hashes.js';
import { mayStartThread } from '../../platform/io/threads.js';
import { type ByteRange, CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import { runAsync, type Work } from '../../work/work.js';
import type { FilePlace } from '../file.js';
import { type HashingOptions, hashLongFile } from './hash-long-file.js';

/** AutoV1, the oldest of the hashes, takes the first digits of the hash of these bytes. */
export const AUTO_V1_BEGIN = 0x100000;
export const AUTO_V1_BYTE_LENGTH = 0x10000;
const AUTO_V1_DIGITS = 8;

/** Below this length, starting threads takes about as long as the hashes. */
const THREADS_BYTE_LENGTH = 64 * 2 ** 20;

/** The parts of a file to hash separately. */
export interface HashedLayout {
  /** Position of the end of the header. */
  readonly dataStart: number;
  /** Position of the bytes of `sshs_legacy_hash`; null for a file without such a hash. */
  readonly legacyBegin: number | null;
  /** Tensors, in the order of their bytes, without overlaps. */
  readonly ranges: readonly HashedRange[];
}

/** A hash of many bytes, which takes as long as reading them. */
export type LongHash = 'sha256' | 'dataSha256' | 'crc32';

const LONG_HASHES: ReadonlySet<LongHash> = new Set<LongHash>(['sha256', 'dataSha256', 'crc32']);

/** The hashes, in hexadecimal digits; empty where they were not requested. */
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

export interface HashOptions extends HashingOptions {
  /** The long hashes to compute besides those of ranges; all by default. */
  readonly wanted?: ReadonlySet<LongHash> | undefined;
}

/** Hashes bytes in order, from the start of the file to its end. */
class FileHasher {
  readonly #layout: HashedLayout;
  readonly #whole: Hash | undefined;
  readonly #data: Hash | undefined;
  readonly #autoV1 = createHash('sha256');
  readonly #legacy = createHash('sha256');
  readonly #ranges: RangeHashes;
  #added = Promise.resolve();
  #crc: number | undefined;
  #at = 0;

  /** `wanted` are the long hashes that it computes itself. */
  constructor(layout: HashedLayout, wanted: ReadonlySet<LongHash>) {
    this.#layout = layout;
    this.#whole = wanted.has('sha256') ? createHash('sha256') : undefined;
    this.#data = wanted.has('dataSha256') ? createHash('sha256') : undefined;
    this.#crc = wanted.has('crc32') ? 0 : undefined;
    this.#ranges = new RangeHashes(layout.ranges);
  }

  /** Takes the next bytes, after those before. They must stay until the promise settles. */
  add(piece: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    this.#added = this.#added.then(() => runAsync(this.#update(piece), signal));
    return this.#added;
  }

  /** In short parts: several hashes of megabytes would block the event loop. */
  *#update(piece: Uint8Array): Work<void> {
    for (const { begin, end } of cut(0, piece.length, CACHED_BYTE_LENGTH)) {
      yield;
      yield* this.#updatePart(piece.subarray(begin, end));
    }
  }

  *#updatePart(piece: Uint8Array): Work<void> {
    const at = this.#at;
    const { dataStart, legacyBegin } = this.#layout;
    this.#whole?.update(piece);
    updateWithin(this.#autoV1, piece, at, AUTO_V1_BEGIN, AUTO_V1_BEGIN + AUTO_V1_BYTE_LENGTH);
    if (legacyBegin !== null) {
      updateWithin(this.#legacy, piece, at, legacyBegin, legacyBegin + AUTO_V1_BYTE_LENGTH);
    }
    if (this.#data !== undefined) {
      updateWithin(this.#data, piece, at, dataStart, Number.POSITIVE_INFINITY);
    }
    if (this.#crc !== undefined) this.#crc = crc32(piece, this.#crc);
    yield* this.#ranges.addYielding(piece);
    this.#at += piece.length;
  }

  /** Ends after the last byte. */
  digests(): FileHashes {
    const short = (hash: Hash): string => hash.digest('hex').slice(0, AUTO_V1_DIGITS);
    return {
      byteLength: this.#at,
      sha256: this.#whole?.digest('hex') ?? '',
      dataSha256: this.#data?.digest('hex') ?? '',
      autoV1: short(this.#autoV1),
      legacy: this.#layout.legacyBegin === null ? null : short(this.#legacy),
      crc32: this.#crc?.toString(16).padStart(8, '0') ?? '',
      ranges: this.#ranges.digests(),
    };
  }
}

/** Hashes a file from its pieces, in order. */
export async function hashPieces(
  pieces: AsyncIterable<Uint8Array>,
  layout: HashedLayout,
  { signal, onBytes, wanted = LONG_HASHES }: HashOptions,
): Promise<FileHashes> {
  const hasher = new FileHasher(layout, wanted);
  for await (const piece of pieces) {
    await hasher.add(piece, signal);
    onBytes(piece.length);
  }
  return hasher.digests();
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
    const highWaterMark = DIRECT_READ_BYTE_LENGTH;
    return await hashPieces(handle.createReadStream({ ...range, highWaterMark }), layout, options);
  } finally {
    await handle.close();
  }
}

/**
 * Reads the file once, and hashes it: a long one on two separate threads, because one hash takes longer than reading.
 *
 * @throws FileChangedError when the file ends early; errors of the system; `signal.reason`
 */
export async function hashOpened(
  file: PassedFile,
  layout: HashedLayout,
  options: HashOptions,
): Promise<FileHashes> {
  const { wanted = LONG_HASHES } = options;
  if (file.byteLength >= THREADS_BYTE_LENGTH && mayStartThread()) {
    return await hashOnThreads(file, layout, wanted, options);
  }
  const memory = sharedDirectMemory(file);
  const hasher = new FileHasher(layout, wanted);
  await passOver(file, memory, async (begin, end) => {
    await hasher.add(memory.subarray(begin, end), options.signal);
    options.onBytes(end - begin);
  });
  reuseSharedMemory(memory);
  return hasher.digests();
}

async function hashOnThreads(
  file: PassedFile,
  { dataStart, legacyBegin, ranges }: HashedLayout,
  wanted: ReadonlySet<LongHash>,
  options: HashingOptions,
): Promise<FileHashes> {
  const { byteLength } = file;
  const long: ByteRange[] = [];
  // Returns a function that finds the hash of a range among the others.
  const add = (isWanted: boolean, begin: number, length: number) => {
    const at = long.length;
    const [from, to] = [Math.min(begin, byteLength), Math.min(begin + length, byteLength)];
    if (isWanted) long.push({ begin: from, end: to });
    return (found: readonly string[]): string => (isWanted ? (found[at] as string) : '');
  };
  const sha256 = add(wanted.has('sha256'), 0, byteLength);
  const dataSha256 = add(wanted.has('dataSha256'), dataStart, byteLength);
  const autoV1 = add(wanted.size > 0, AUTO_V1_BEGIN, AUTO_V1_BYTE_LENGTH);
  const legacy = add(legacyBegin !== null, legacyBegin ?? 0, AUTO_V1_BYTE_LENGTH);
  const parts = { long, ranges, crc32: wanted.has('crc32') };
  const found = await hashLongFile(file, parts, options);
  return {
    byteLength,
    sha256: sha256(found.long),
    dataSha256: dataSha256(found.long),
    autoV1: autoV1(found.long).slice(0, AUTO_V1_DIGITS),
    legacy: legacyBegin === null ? null : legacy(found.long).slice(0, AUTO_V1_DIGITS),
    crc32: found.crc32,
    ranges: new Map(ranges.map(({ name }, i) => [name, found.ranges[i] as string])),
  };
}
