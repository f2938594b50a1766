/** Hashes long files on two threads; this one only coordinates them. */

import { JoinedCrc32 } from '../../platform/io/combined-crc32.js';
import {
  type PassedFile,
  passOver,
  reuseSharedMemory,
  sharedDirectMemory,
} from '../../platform/io/direct-io.js';
import { type HashTask, HashTasks } from '../../platform/io/hash-tasks.js';
import type { HashAlgorithm } from '../../platform/io/hashing-thread.js';
import { allSettled } from '../../work/all-settled.js';
import { type ByteRange, cut } from '../../work/byte-ranges.js';

/** What goes with hashing. */
export interface HashingOptions {
  readonly signal: AbortSignal | undefined;
  /** Called with the number of bytes that were read since the last call. */
  readonly onBytes: (byteLength: number) => void;
}

/** What to hash of a file. */
interface FileParts {
  /** Ranges that may overlap, with one SHA-256 each. */
  readonly long: readonly ByteRange[];
  /** Ranges in the order of their bytes, without overlaps, with one SHA-256 each. */
  readonly ranges: readonly ByteRange[];
  /** Whether to compute the CRC-32 of the whole file. */
  readonly crc32: boolean;
}

/** The hashes of these parts, in hexadecimal digits. */
interface PartHashes {
  readonly long: readonly string[];
  readonly ranges: readonly string[];
  /** Empty where it was not requested. */
  readonly crc32: string;
}

/** A task, and what receives its digests. */
interface PlannedTask extends HashTask {
  readonly use: (digests: readonly string[]) => void;
}

/** Threads that hash bytes of the same range. */
interface Pass {
  readonly range: ByteRange;
  readonly threads: readonly (readonly PlannedTask[])[];
}

/** Parts of this length are shared out for the CRC-32 of the whole file. */
const CRC32_PART_BYTE_LENGTH = 2 ** 20;

/**
 * Hashes a file. Bytes that are in the page cache are read by the threads themselves, others once for both.
 *
 * @throws FileChangedError when the file ends early; errors of the system; `signal.reason`
 */
export async function hashLongFile(
  file: PassedFile,
  parts: FileParts,
  options: HashingOptions,
): Promise<PartHashes> {
  const isRangesOnly = parts.long.length === 0 && !parts.crc32;
  if (isRangesOnly) return { long: [], ranges: await hashHalves(file, parts, options), crc32: '' };
  const pieces = parts.crc32 ? [...cut(0, file.byteLength, CRC32_PART_BYTE_LENGTH)] : [];
  const loads: [number, number] = [0, 0];
  const long = sharedOut('sha256', parts.long, loads, true);
  const ranges = sharedOut('sha256', parts.ranges, loads);
  const checksums = sharedOut('crc32', pieces, loads);
  const threads = [0, 1].map((i) =>
    [long, ranges, checksums].flatMap(({ tasks }) => tasks[i] ?? []),
  );
  const range = { begin: 0, end: file.byteLength };
  await runPasses(file, [{ range, threads: threads.filter(({ length }) => length > 0) }], options);
  const crc32 = parts.crc32 ? joinedCrc32(checksums.digests, pieces) : '';
  return { long: long.digests, ranges: ranges.digests, crc32 };
}

/** Hashes ranges up to half of the file's bytes, and those after them, far apart, so that no thread waits. */
async function hashHalves(
  file: PassedFile,
  { ranges }: FileParts,
  options: HashingOptions,
): Promise<readonly string[]> {
  const { byteLength } = file;
  const found = ranges.findIndex(({ begin, end }) => begin + end > byteLength);
  const at = found < 0 ? ranges.length : found;
  const middle = ranges[at]?.begin ?? byteLength;
  const digests: string[][] = [[], []];
  const passOf = (half: number, begin: number, end: number, own: readonly ByteRange[]): Pass => {
    const use = (found: readonly string[]): void => {
      digests[half] = [...found];
    };
    return { range: { begin, end }, threads: [[{ algorithm: 'sha256', ranges: own, use }]] };
  };
  const earlier = passOf(0, 0, middle, ranges.slice(0, at));
  const later = passOf(1, middle, byteLength, ranges.slice(at));
  await runPasses(file, [earlier, later], options);
  return digests.flat();
}

/** Ranges that both threads hash, and the digests of all. */
interface SharedOut {
  readonly tasks: readonly (readonly PlannedTask[])[];
  readonly digests: readonly string[];
}

/**
 * Gives each range to the thread that has less to hash so far: the threads go over the file together, so their shares
 * of every part of it should be equal.
 *
 * @param loads bytes that each thread hashes
 * @param isSeparate whether ranges overlap, so that each is a separate task
 */
function sharedOut(
  algorithm: HashAlgorithm,
  ranges: readonly ByteRange[],
  loads: [number, number],
  isSeparate = false,
): SharedOut {
  const digests = ranges.map(() => '');
  const shares: [number[], number[]] = [[], []];
  for (const [i, { begin, end }] of ranges.entries()) {
    const thread = loads[0] <= loads[1] ? 0 : 1;
    loads[thread] += end - begin;
    shares[thread].push(i);
  }
  const taskOf = (share: readonly number[]): PlannedTask => {
    const own = share.map((i) => ranges[i] as ByteRange);
    const use = (found: readonly string[]): void => {
      for (const [at, i] of share.entries()) digests[i] = found[at] as string;
    };
    return { algorithm, ranges: own, use };
  };
  const tasks = shares.map((share) => {
    if (isSeparate) return share.map((i) => taskOf([i]));
    return share.length > 0 ? [taskOf(share)] : [];
  });
  return { tasks, digests };
}

function joinedCrc32(checksums: readonly string[], pieces: readonly ByteRange[]): string {
  const joined = new JoinedCrc32();
  let crc32 = 0;
  for (const [i, { begin, end }] of pieces.entries()) {
    crc32 = joined.add(begin, end, Number.parseInt(checksums[i] as string, 16));
  }
  return crc32.toString(16).padStart(8, '0');
}

/** Runs passes over the file at the same time, and returns when all threads have ended. */
async function runPasses(
  file: PassedFile,
  passes: readonly Pass[],
  options: HashingOptions,
): Promise<void> {
  const running = passes.map((pass) => runPass(file, pass, options));
  // None may use the descriptor after another one has failed.
  await allSettled(running);
}

async function runPass(
  file: PassedFile,
  { range, threads }: Pass,
  { signal, onBytes }: HashingOptions,
): Promise<void> {
  const memory = sharedDirectMemory(file);
  const hashing = threads.map((tasks) => new HashTasks(tasks, memory));
  // Pieces are whole blocks: what two passes read at their border counts once.
  const count = (begin: number, end: number): void => {
    const [from, to] = [Math.max(begin, range.begin), Math.min(end, range.end)];
    if (to > from) onBytes(to - from);
  };
  const use = async (begin: number, end: number, position: number): Promise<void> => {
    signal?.throwIfAborted();
    const last = position + end - begin;
    await allSettled(hashing.map((thread) => thread.addMemory(begin, position, last)));
    count(position, last);
  };
  const useCached = async (begin: number, end: number): Promise<void> => {
    signal?.throwIfAborted();
    await allSettled(hashing.map((thread) => thread.addFile(file, begin, end)));
    count(begin, end);
  };
  try {
    await passOver(file, memory, use, { range, useCached });
    for (const [i, tasks] of threads.entries()) {
      const digests = (hashing[i] as HashTasks).digests();
      for (const [at, { use }] of tasks.entries()) use(digests[at] as readonly string[]);
    }
    reuseSharedMemory(memory);
  } finally {
    await Promise.all(hashing.map((thread) => thread.end()));
  }
}
