/** Statistics of a tensor: of all its values, or of a sample. */

import type { Dtype } from 'safetensors-mmap';
import {
  type Histogram,
  histogram,
  type SliceableTensor,
  type Statistics,
  statistics,
  tensorValues,
} from 'safetensors-mmap/inspect';
import type { Axis } from '../selection.js';
import { RowNorms } from './norms.js';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { part, readable, tensorFacts } from './values.js';

/** Bytes up to which all values are read without being asked for. */
const WHOLE_LIMIT = { local: 2 ** 26, remote: 2 ** 23 };

/** Values that are kept between the two passes over them, instead of being read again. */
const MAX_KEPT = 2 ** 24;

const BINS = 120;

/** What is known of the values of a tensor. */
export interface TensorStatistics {
  readonly statistics: Statistics;
  /** Null without finite values. */
  readonly histogram: Histogram | null;
  /** ‖row‖ of all rows along the last dimension, and ‖column‖; null of a sample, and of a vector. */
  readonly norms: { readonly rows: Float64Array; readonly columns: Float64Array } | null;
  readonly isSample: boolean;
  readonly elements: number;
}

/** Done and total bytes. */
export interface Progress {
  readonly done: number;
  readonly total: number;
}

/** A tensor that is a part of another. */
export function partOf(
  source: Source,
  name: string,
  axes: readonly Axis[],
  signal: AbortSignal,
): SliceableTensor {
  return {
    dtype: readable(source, name, signal).dtype,
    shape: axes.map(({ count }) => count),
    // A sample is one window: it is asked for as a whole.
    slice: () => part(source, name, axes, signal),
  };
}

async function* kept(
  windows: AsyncIterable<ArrayLike<number>>,
  into: ArrayLike<number>[],
): AsyncGenerator<ArrayLike<number>> {
  for await (const values of windows) {
    into.push((values as Float32Array).slice());
    yield values;
  }
}

async function* listed(windows: readonly ArrayLike<number>[]): AsyncGenerator<ArrayLike<number>> {
  yield* windows;
}

/** Goes over the values of a tensor twice: for the statistics, and for the histogram between their ends. */
export async function tensorStatistics(
  source: Source,
  name: string,
  isWholeRequested: boolean,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<TensorStatistics> {
  const { shape, elements, byteLength, kind, quantization } = tensorFacts(source, name);
  const limit = source.isRemote ? WHOLE_LIMIT.remote : WHOLE_LIMIT.local;
  const isWhole = isWholeRequested || byteLength <= limit;
  const axes = isWhole ? null : sampleAxes(shape, sampleSize(source.isRequested, false));
  const count = axes === null ? elements : selectedElements(axes);
  const tensor =
    axes === null ? readable(source, name, signal) : partOf(source, name, axes, signal);
  const isKept = count <= MAX_KEPT;
  const windows: ArrayLike<number>[] = [];
  const passes = isKept ? 1 : 2;
  const values = (pass: number) =>
    tensorValues(tensor, {
      signal,
      onProgress: ({ bytes, totalBytes }) =>
        onProgress({ done: bytes + pass * totalBytes, total: totalBytes * passes }),
    });
  // Of packed dtypes the values are read as F32, and what is subnormal is so as they are stored.
  const dtype = quantization === null ? (kind as Dtype) : 'F32';
  const norms = axes === null ? RowNorms.of(shape, dtype) : null;
  const first = norms === null ? values(0) : norms.watched(values(0));
  const found = await statistics(isKept ? kept(first, windows) : first, dtype);
  // Equal values have no range to divide: a single bin is at the value.
  const bins = found.min === found.max ? 1 : BINS;
  const counted = await histogram(isKept ? listed(windows) : values(1), found, bins);
  return {
    ...{ statistics: found, histogram: counted, elements },
    norms: norms?.result() ?? null,
    isSample: axes !== null && count < elements,
  };
}
