/** The pieces of a file whose tensors may be in files, with the sums of the tensors where it has them. */

import type { Layout } from '../../header/header-writer.js';
import { type SumsPlace, sumMismatch } from '../../header/tensor-sums.js';
import { RangeHashes } from '../../platform/io/range-hashes.js';
import type { AsyncFill } from '../../tensor/storage/made.js';
import type { Lenders } from '../input/serialized.js';
import { serializedPieces } from '../input/serialized-pieces.js';
import type { Payload, WriteEntry } from '../input/tensor-input.js';
import { BorrowedFiles } from './source-files.js';
import { fillOf } from './tensor-writes.js';

/**
 * Yields the bytes of the file in order. Reads all data twice when the file has sums.
 *
 * @throws As `serializedPieces`; FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
 */
export function piecesOf(
  layout: Layout<WriteEntry<Payload>>,
  entries: readonly WriteEntry<Payload>[],
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const { header, sums } = layout;
  const pieces = (): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> =>
    serializedPieces(layout, () => lendersOf(entries), signal);
  return sums === undefined ? pieces() : summedPieces(header, sums, pieces);
}

/**
 * Reads the pieces twice: for the sums, which go into the header, then to yield them, one late, so that a file that
 * does not match its sums never ends.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` when a tensor gives other bytes the second time
 */
async function* summedPieces(
  header: Uint8Array,
  sums: SumsPlace,
  pieces: () => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const first = new RangeHashes(sums.ranges);
  for await (const piece of pieces()) first.add(piece);
  header.set(first.text(), sums.position);
  const second = new RangeHashes(sums.ranges);
  let last: Uint8Array<ArrayBuffer> | undefined;
  for await (const piece of pieces()) {
    second.add(piece);
    if (last !== undefined) yield last;
    last = piece;
  }
  const found = second.digests();
  for (const [tensor, sum] of first.digests()) {
    if (found.get(tensor) === sum) continue;
    throw sumMismatch(sum, `${found.get(tensor)} when the data was read again`, { tensor });
  }
  if (last !== undefined) yield last;
}

/** Lends the files of these tensors to a stream. */
export function lendersOf(tensors: Iterable<{ readonly payload: Payload }>): Lenders<AsyncFill> {
  const sources = new BorrowedFiles(tensors);
  return {
    fill: (payload) => fillOf(payload, sources),
    verify: () => sources.verify(),
    end: () => sources.end(),
  };
}
