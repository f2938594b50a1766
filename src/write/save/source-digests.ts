/** Digests of tensors of files before they are written: declared ones, and others by separate threads. */

import { HashingThread, type TaskParts } from '../../platform/io/hashing-thread.js';
import { KEYED_BYTE_LENGTH } from '../../platform/io/range-hashes.js';
import { type FileRange, merge, type Part } from '../../work/byte-ranges.js';
import { limit, Slots } from '../../work/slots.js';
import type { FilePayload, WriteEntry } from '../input/tensor-input.js';
import type { LeasedFiles } from './leased-files.js';
import { sharesOf } from './written-digests.js';

/** Bytes for a thread at once. */
const PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** Pieces of a thread at once: the next one waits there. */
const PIECES_AT_ONCE = 2;

/** The digest of a tensor, and a keyed hash of the bytes it was computed from. */
export interface SourceDigest {
  readonly hex: string;
  /** Undefined for a digest that was declared, and for short tensors. */
  readonly keyed?: string | undefined;
}

/** A tensor of a file, as a range of that. */
interface TensorRange extends FileRange {
  readonly at: number;
  readonly payload: FilePayload;
}

/**
 * Returns the digests of the tensors: those that their files declare without reading a byte, so the caller must compare
 * them. Others have a keyed hash, too, which shows faster whether the bytes are the same when they are read again.
 *
 * @throws FileChangedError when a file ends early; errors of the system; `signal.reason`
 */
export async function sourceDigests(
  entries: readonly WriteEntry<FilePayload>[],
  sources: LeasedFiles,
  key: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<readonly SourceDigest[]> {
  const digests = entries.map(({ payload }): SourceDigest => ({ hex: payload.digest?.hex ?? '' }));
  const ranges = entries.flatMap(({ payload, byteLength }, at): TensorRange[] => {
    const { position, digest } = payload;
    return digest === undefined ? [{ at, payload, position, byteLength }] : [];
  });
  const bounds = ranges.map(({ byteLength }) => ({ begin: 0, end: byteLength }));
  const shares = sharesOf(bounds).filter(({ length }) => length > 0);
  const threads = shares.map(() => new HashingThread());
  try {
    const hashing = shares.map(async (share, i) => {
      const own = share.map((at) => ranges[at] as TensorRange);
      await hashRanges(threads[i] as HashingThread, own, sources, key, signal, digests);
    });
    await Promise.allSettled(hashing);
    await Promise.all(hashing);
    return digests;
  } finally {
    await Promise.all(threads.map((thread) => thread.end()));
  }
}

async function hashRanges(
  thread: HashingThread,
  ranges: readonly TensorRange[],
  sources: LeasedFiles,
  key: Uint8Array,
  signal: AbortSignal | undefined,
  digests: SourceDigest[],
): Promise<void> {
  const limits = {
    maxByteLength: PIECE_BYTE_LENGTH,
    joins: (
      { parts, position, byteLength }: FileRange & { readonly parts: readonly Part<TensorRange>[] },
      { payload, position: next }: TensorRange,
      begin: number,
    ): boolean =>
      parts[0]?.range.payload.storage === payload.storage && position + byteLength === next + begin,
  };
  await limit(
    merge(ranges, limits),
    new Slots(PIECES_AT_ONCE),
    async ({ position, byteLength, parts }) => {
      const file = sources.fileOf((parts[0] as Part<TensorRange>).range.payload);
      const keyedParts = parts.filter(({ range }) => range.byteLength >= KEYED_BYTE_LENGTH);
      const tasks: readonly TaskParts[] = [
        { task: 0, algorithm: 'sha256', parts: numbersOf(parts) },
        { task: 1, algorithm: 'keyed', key, parts: numbersOf(keyedParts) },
      ];
      const piece = { begin: position, end: position + byteLength, tasks };
      const opened = { fd: file.acquire(), path: file.path };
      try {
        const [found = [], keyed = []] = await thread.hashFile(opened, piece);
        const macs = new Map(ended(keyedParts).map(({ range }, i) => [range, keyed[i]]));
        for (const [i, { range }] of ended(parts).entries()) {
          digests[range.at] = { hex: found[i] as string, keyed: macs.get(range) };
        }
      } finally {
        file.release();
      }
    },
    signal,
  );
}

/** The parts with which their tensors end. */
function ended(parts: readonly Part<TensorRange>[]): readonly Part<TensorRange>[] {
  return parts.filter(({ range, end }) => end === range.byteLength);
}

/** Parts as the thread takes them. */
function numbersOf(parts: readonly Part<TensorRange>[]): readonly number[] {
  return parts.flatMap(({ range, begin, end }) => {
    const isLast = end === range.byteLength ? 1 : 0;
    return [range.position + begin, range.position + end, isLast];
  });
}
