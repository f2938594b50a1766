/** The picture of a selection: a value for every cell of it, sampled when there are more elements than cells. */

import type { Tensor } from 'safetensors-mmap';
import { valueNumbers } from 'safetensors-mmap/inspect';
import { type Axis, remainingAxes, sampledPosition, within } from '../selection.js';
import type { Source } from './sources.js';
import { part, tensorFacts } from './values.js';

/** Values at even distances of a part of a selection. */
export interface Heat {
  readonly window: HeatWindow;
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
  /** Every how many rows and columns of the selection there is a value; 1 is exact. */
  readonly rowStep: number;
  readonly columnStep: number;
  /** The absolute value that 99.8 % of the values don't exceed, and the greatest of all. */
  readonly limit: number;
  readonly most: number;
}

/** The part of a selection to show: positions of its two axes, and the cells to show it in. */
export interface HeatWindow {
  readonly rows: readonly [from: number, to: number];
  readonly columns: readonly [from: number, to: number];
  readonly maxRows: number;
  readonly maxColumns: number;
}

/** Rows that lie further apart than this in a file are a request each. */
const MAX_GAP_BYTE_LENGTH = 2 ** 16;

/** Most rows that are a request each: what is seen from afar must not take hundreds of them. */
const MAX_REQUESTS = 128;

/** Bytes from one element of an axis to the next. */
function strideOf(source: Source, name: string, axis: number): number {
  const { shape, elements, byteLength } = tensorFacts(source, name);
  const below = shape.slice(axis + 1).reduce((product, size) => product * size, 1);
  return elements === 0 ? 0 : (byteLength / elements) * below;
}

/** The values of a tensor; of complex numbers their sizes. */
function sizesOf(tensor: Tensor): Float32Array {
  const numbers = valueNumbers(tensor);
  if (tensor.dtype !== 'C64') return Float32Array.from(numbers);
  return Float32Array.from({ length: numbers.length / 2 }, (_, at) =>
    Math.hypot(numbers[2 * at] as number, numbers[2 * at + 1] as number),
  );
}

function limitsOf(values: Float32Array): { limit: number; most: number } {
  const sizes = values.filter(Number.isFinite).map(Math.abs).sort();
  const most = sizes.at(-1) || 1;
  return { limit: sizes[Math.floor((sizes.length - 1) * 0.998)] || most, most };
}

/**
 * Reads one value for every cell: the one in the middle of what the cell stands for.
 *
 * @param minus a source whose values are subtracted
 */
export async function heat(
  source: Source,
  name: string,
  axes: readonly Axis[],
  window: HeatWindow,
  minus: Source | null,
  signal: AbortSignal,
): Promise<Heat> {
  const { rows, columns, maxRows, maxColumns } = window;
  const [down, across] = remainingAxes(axes) as [number, number];
  const stepOf = ([from, to]: readonly [number, number], most: number) =>
    Math.max(1, Math.ceil((to - from) / most));
  const columnStep = stepOf(columns, maxColumns);
  const isFar = (step: number) =>
    step * (axes[down] as Axis).step * strideOf(source, name, down) > MAX_GAP_BYTE_LENGTH;
  const finest = stepOf(rows, maxRows);
  const isMany = source.isRequested && isFar(finest);
  const rowStep = isMany ? stepOf(rows, Math.min(maxRows, MAX_REQUESTS)) : finest;
  const sampled = (axis: Axis, [from, to]: readonly [number, number], step: number) =>
    within(axis, sampledPosition(0, [from, to], step), to, step);
  const selected = axes
    .with(down, sampled(axes[down] as Axis, rows, rowStep))
    .with(across, sampled(axes[across] as Axis, columns, columnStep));
  const valuesOf = async (one: Source) => sizesOf(await part(one, name, selected, signal));
  const [before, after] = await Promise.all([
    valuesOf(source),
    minus === null ? null : valuesOf(minus),
  ]);
  const values = before.map((value, at) => value - (after?.[at] ?? 0));
  const [shownRows, shownColumns] = [selected[down], selected[across]] as [Axis, Axis];
  return {
    ...{ window, values },
    rows: shownRows.count,
    columns: shownColumns.count,
    rowStep,
    columnStep,
    ...limitsOf(values),
  };
}
