/** The picture of a selection: a value for every cell of it, sampled when there are more elements than cells. */

import { valueNumbers } from 'safetensors-mmap/inspect';
import { type Axis, remainingAxes, within } from '../selection.js';
import type { Source } from './sources.js';
import { part, tensorFacts } from './values.js';

/** Values at even distances of a part of a selection. */
export interface Heat {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
  /** Every how many rows and columns of the selection there is a value; 1 is exact. */
  readonly rowStep: number;
  readonly columnStep: number;
  /** The size of values from which on the colour is the strongest: few values are larger. */
  readonly limit: number;
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

function limitOf(values: Float32Array): number {
  const sizes = values.filter(Number.isFinite).map(Math.abs).sort();
  return sizes[Math.floor((sizes.length - 1) * 0.995)] || sizes.at(-1) || 1;
}

/** Reads one value for every cell: the one in the middle of what the cell stands for. */
export async function heat(
  source: Source,
  name: string,
  axes: readonly Axis[],
  { rows, columns, maxRows, maxColumns }: HeatWindow,
  signal: AbortSignal,
): Promise<Heat> {
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
    within(axis, Math.min(from + Math.floor(step / 2), to - 1), to, step);
  const selected = axes
    .with(down, sampled(axes[down] as Axis, rows, rowStep))
    .with(across, sampled(axes[across] as Axis, columns, columnStep));
  const tensor = await part(source, name, selected, signal);
  const numbers = valueNumbers(tensor);
  // A complex number is shown by its size.
  const values =
    tensor.dtype === 'C64'
      ? Float32Array.from({ length: numbers.length / 2 }, (_, at) =>
          Math.hypot(numbers[2 * at] as number, numbers[2 * at + 1] as number),
        )
      : Float32Array.from(numbers);
  const [shownRows, shownColumns] = [selected[down], selected[across]] as [Axis, Axis];
  return {
    values,
    rows: shownRows.count,
    columns: shownColumns.count,
    rowStep,
    columnStep,
    limit: limitOf(values),
  };
}
