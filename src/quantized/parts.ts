/** Parts of a logical tensor: gathered from the rows in which they lie, or one block of rows after the other. */

import { gather } from '../tensor/gather.js';
import type { RowPlan } from '../tensor/rows.js';
import type { SlicePlan } from '../tensor/slice.js';
import { extentOf, splitCopy } from '../tensor/strided-copy.js';
import type { RowBlock } from './row-options.js';

/** Most bytes of rows that are computed at once for a slice that needs some of their values. */
const WINDOW_BYTE_LENGTH = 2 ** 24;

/** Writes the rows from `first` on, as many as fit. */
export type FillRows = (first: number, into: Float32Array) => Promise<unknown>;

/** Fills `output` with the slice of a tensor whose rows have `columns` values. */
export async function fillSlice(
  plan: SlicePlan,
  columns: number,
  fill: FillRows,
  output: Float32Array,
): Promise<void> {
  const rowByteLength = columns * Float32Array.BYTES_PER_ELEMENT;
  const isRows = plan.byteOffset % rowByteLength === 0 && plan.byteLength % rowByteLength === 0;
  if (plan.contiguous && isRows) {
    await fill(plan.byteOffset / rowByteLength, output);
    return;
  }
  const bytes = new Uint8Array(output.buffer, output.byteOffset, output.byteLength);
  for (const { copy, targetByteOffset } of splitCopy(plan, WINDOW_BYTE_LENGTH)) {
    const { begin, end } = extentOf(copy);
    const first = Math.floor(begin / rowByteLength);
    const rows = new Float32Array((Math.ceil(end / rowByteLength) - first) * columns);
    await fill(first, rows);
    gather(copy, new Uint8Array(rows.buffer), first * rowByteLength, bytes, targetByteOffset);
  }
}

/** Fills `output` with rows along dimension 0; neighbours are computed together. */
export async function fillRows(
  { rows, rowByteLength }: RowPlan,
  columns: number,
  fill: FillRows,
  output: Float32Array,
): Promise<void> {
  const length = rowByteLength / Float32Array.BYTES_PER_ELEMENT;
  // Of a single dimension these are values of the only row.
  if (length < columns) {
    const row = new Float32Array(columns);
    await fill(0, row);
    rows.forEach((at, i) => {
      output[i] = row[at] as number;
    });
    return;
  }
  for (let i = 0, end = 0; i < rows.length; i = end) {
    const first = rows[i] as number;
    end = i + 1;
    while (end < rows.length && rows[end] === first + end - i) end++;
    await fill(first * (length / columns), output.subarray(i * length, end * length));
  }
}

/** Reads `count` rows from `row` on. */
export type ReadRows = (row: number, count: number, signal: AbortSignal) => Promise<RowBlock>;

/** The rows to read, and how. */
interface Blocks {
  readonly first: number;
  readonly last: number;
  /** Most rows of a block. */
  readonly rows: number;
  /** Whether the next block is read while one is used. */
  readonly isAhead: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Yields the rows [first, last) in blocks. Leaving the loop ends what is being read ahead. */
export async function* readBlocks(
  read: ReadRows,
  { first, last, rows, isAhead, signal }: Blocks,
): AsyncGenerator<RowBlock, void, void> {
  const end = new AbortController();
  const ends = signal === undefined ? end.signal : AbortSignal.any([signal, end.signal]);
  const readFrom = (row: number): Promise<RowBlock> => read(row, Math.min(rows, last - row), ends);
  const begin = (row: number): Promise<RowBlock> | undefined => {
    const block = isAhead && row < last ? readFrom(row) : undefined;
    // Awaited in its turn; until then Node must not report a rejection as unhandled.
    block?.catch(() => {});
    return block;
  };
  let next = begin(first);
  try {
    for (let row = first; row < last; row += rows) {
      const block = await (next ?? readFrom(row));
      next = begin(row + rows);
      yield block;
    }
  } finally {
    end.abort();
    await next?.catch(() => {});
  }
}
