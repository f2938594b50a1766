/** Statistics of all tensors of a model, one after the other, in the background. */

import { statistics, tensorValues } from 'safetensors-mmap/inspect';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { type Progress, partOf } from './statistics.js';
import { readable, tensorFacts } from './values.js';

/** Statistics by position in the list; NaN for tensors that are not known yet, or have no finite values. */
export interface LayerStatistics {
  /** Root of the mean of the squares: the norm, whatever the size. */
  readonly norm: Float64Array;
  readonly spread: Float64Array;
  /** The greatest size, in root mean squares. */
  readonly outliers: Float64Array;
  /** Share of zeros. */
  readonly zeros: Float64Array;
  /** Number of NaN and infinities. */
  readonly broken: Float64Array;
}

/** What is known so far. */
export interface LayersProgress extends Progress {
  readonly partial: LayerStatistics;
}

/** Tensors at a time: with requests, waiting is most of the work. */
const CONCURRENCY = { files: 1, requests: 6 };

const REPORT_MS = 300;

/** Runs work for every position, some at a time; a failure ends all. */
export async function forEachAt(
  count: number,
  isRequested: boolean,
  work: (at: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  const workers = isRequested ? CONCURRENCY.requests : CONCURRENCY.files;
  await Promise.all(Array.from({ length: workers }, worker));
}

/** Calls at most every 300 ms. */
export function seldom(report: () => void): () => void {
  let last = performance.now();
  return () => {
    if (performance.now() - last < REPORT_MS) return;
    last = performance.now();
    report();
  };
}

/** Computes statistics of all tensors: of samples, or of all values. */
export async function layerStatistics(
  source: Source,
  isWhole: boolean,
  signal: AbortSignal,
  onProgress: (progress: LayersProgress) => void,
): Promise<LayerStatistics> {
  const { names } = source.list;
  const column = () => new Float64Array(names.length).fill(Number.NaN);
  const columns = {
    norm: column(),
    spread: column(),
    outliers: column(),
    zeros: column(),
    broken: column(),
  };
  const total = source.list.byteLength.reduce((sum, byteLength) => sum + byteLength, 0);
  let done = 0;
  const report = seldom(() => onProgress({ done, total, partial: columns }));
  await forEachAt(names.length, source.isRequested, async (at) => {
    const name = names[at] as string;
    const { shape, elements, byteLength } = tensorFacts(source, name);
    const axes = sampleAxes(shape, sampleSize(source.isRequested, true));
    const isSample = !isWhole && selectedElements(axes) < elements;
    const tensor = isSample ? partOf(source, name, axes, signal) : readable(source, name, signal);
    const {
      mean,
      std,
      min,
      max,
      zero,
      nan,
      infinite,
      elements: read,
    } = await statistics(tensorValues(tensor, { signal }), tensor.dtype);
    if (mean !== null && std !== null) {
      const norm = Math.hypot(mean, std);
      columns.norm[at] = norm;
      columns.spread[at] = std;
      columns.outliers[at] =
        norm === 0 ? 0 : Math.max(Math.abs(min as number), Math.abs(max as number)) / norm;
    }
    columns.zeros[at] = zero / Math.max(1, read);
    columns.broken[at] = nan + infinite;
    done += byteLength;
    report();
  });
  return columns;
}
