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
import type { FilePlace } from '../file.js';
import { type HashingOptions, hashRanges } from './hash-ranges.js';
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

/** The hashes that a pass for range digests omits. */
const NO_HASHES = { sha256: '', dataSha256: '', autoV1: '', legacy: null, crc32: '' };

/** Hashes bytes in order, from the start of the file to its end. */
class FileHasher {
  readonly #layout: HashedLayout;
  readonly #whole: Hash | undefined;
  readonly #data: Hash | undefined;
  readonly #autoV1 = createHash('sha256');
  readonly #legacy = createHash('sha256');
  readonly #ranges: RangeHashes;
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

  update(piece: Uint8Array): void {
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
    this.#ranges.add(piece);
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
    signal?.throwIfAborted();
    hasher.update(piece);
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
 * Reads the file once, and hashes it. For a long file a second thread has a part of the work, because one hash takes
 * longer than reading: the hash of all tensors, or where that is not requested the hashes of the later ranges.
 *
 * @throws FileChangedError when the file ends early; errors of the system; `signal.reason`
 */
export async function hashOpened(
  file: PassedFile,
  layout: HashedLayout,
  options: HashOptions,
): Promise<FileHashes> {
  const isLong = file.byteLength >= WORKER_BYTE_LENGTH && mayStartThread();
  const { wanted = LONG_HASHES } = options;
  if (isLong && wanted.size === 0 && layout.legacyBegin === null) {
    const ranges = await hashRanges(file, layout.ranges, options);
    return { ...NO_HASHES, byteLength: file.byteLength, ranges };
  }
  const memory = sharedDirectMemory(file);
  const thread = isLong && wanted.has('dataSha256') ? new HashThread(memory) : undefined;
  const own = new Set(wanted);
  if (thread !== undefined) own.delete('dataSha256');
  const hasher = new FileHasher(layout, own);
  const use = async (begin: number, end: number, position: number) => {
    options.signal?.throwIfAborted();
    const onThread = thread?.update(begin + Math.max(0, layout.dataStart - position), end);
    hasher.update(memory.subarray(begin, end));
    options.onBytes(end - begin);
    await onThread;
  };
  try {
    await passOver(file, memory, use);
    const hashes = hasher.digests();
    const dataSha256 = await thread?.digest();
    reuseSharedMemory(memory);
    return dataSha256 === undefined ? hashes : { ...hashes, dataSha256 };
  } finally {
    await thread?.end();
  }
}
