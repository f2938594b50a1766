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
import { type Axis, wholeAxis } from '../selection.js';
import { firstBroken } from './health.js';
import { RowNorms } from './norms.js';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { part, readable, tensorFacts } from './values.js';

/** Bytes up to which all values are read without being asked for. */
const WHOLE_LIMIT = { local: 2 ** 26, remote: 2 ** 23 };

/** Values that are kept between the two passes over them, instead of being read again. */
const MAX_KEPT = 2 ** 24;

export const BINS = 120;

/** Ranges to find the ends of nearly all values with. */
export const FINE_BINS = 2 ** 14;

/** Share of values on each side that are beyond a clipped histogram. */
const CLIPPED = 0.001;

/** Of a range that is not this much shorter nothing is clipped. */
const WORTH_CLIPPING = 0.8;

/** A histogram without the few values that are far from all others. */
export interface ClippedHistogram extends Histogram {
  /** Number of values below its range, and above it. */
  readonly below: number;
  readonly above: number;
}

/** What is known of the values of a tensor. */
export interface TensorStatistics {
  readonly statistics: Statistics;
  /** Null without finite values. */
  readonly histogram: Histogram | null;
  /** From 0.1 to 99.9 % of the values; null where that is nearly the whole range. */
  readonly clipped: ClippedHistogram | null;
  /** ‖row‖ of all rows along the last dimension, and ‖column‖; null of a sample, and of a vector. */
  readonly norms: { readonly rows: Float64Array; readonly columns: Float64Array } | null;
  readonly isSample: boolean;
  readonly elements: number;
  /** The index of the first value that is NaN or infinite; null without one. */
  readonly brokenAt: readonly number[] | null;
}

/** What is read of a tensor: as much as of every tensor of a model, all of one that is not too long, or all. */
export type Extent = 'glance' | 'limited' | 'whole';

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

/** The range of nearly all values, and how many are beyond it; null where that is not much shorter. */
export function clippedRange(fine: Histogram | null): Omit<ClippedHistogram, 'counts'> | null {
  if (fine === null) return null;
  const { min, max, counts } = fine;
  const beyond = CLIPPED * counts.reduce((sum, count) => sum + count, 0);
  /** Bins from an end that hold fewer values than may be beyond, and their values. */
  const clip = (of: readonly number[]): [bins: number, values: number] => {
    let [bins, values] = [0, 0];
    while (values + (of[bins] as number) <= beyond) values += of[bins++] as number;
    return [bins, values];
  };
  const [first, below] = clip(counts);
  const [last, above] = clip(counts.toReversed());
  const left = counts.length - first - last;
  if (left > WORTH_CLIPPING * counts.length) return null;
  const width = (max - min) / counts.length;
  return { min: min + first * width, max: max - last * width, below, above };
}

/** Goes over the values of a tensor several times: for the statistics, and for the histogram between their ends. */
export async function tensorStatistics(
  source: Source,
  name: string,
  extent: Extent,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<TensorStatistics> {
  const { shape, elements, byteLength, kind, quantization } = tensorFacts(source, name);
  const limit = source.isRemote ? WHOLE_LIMIT.remote : WHOLE_LIMIT.local;
  const isWhole = extent === 'whole' || (extent === 'limited' && byteLength <= limit);
  const size = sampleSize(source.isRequested, extent === 'glance' ? source.list.names.length : 1);
  const axes = isWhole ? null : sampleAxes(shape, size);
  const count = axes === null ? elements : selectedElements(axes);
  const tensor =
    axes === null ? readable(source, name, signal) : partOf(source, name, axes, signal);
  const isKept = count <= MAX_KEPT;
  const windows: ArrayLike<number>[] = [];
  const passes = isKept ? 1 : 4;
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
  const again = (pass: number) => (isKept ? listed(windows) : values(pass));
  const counted = await histogram(again(1), found, bins);
  const range = bins === 1 ? null : clippedRange(await histogram(again(2), found, FINE_BINS));
  const inRange = range && (await histogram(again(3), range, BINS));
  const clipped = range && inRange && { ...range, ...inRange };
  const brokenAt =
    found.nan + found.infinite > 0
      ? await firstBroken(again(1), axes ?? shape.map(wholeAxis))
      : null;
  return {
    ...{ statistics: found, histogram: counted, clipped, elements, brokenAt },
    norms: norms?.result() ?? null,
    isSample: axes !== null && count < elements,
  };
}
