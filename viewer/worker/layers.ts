/** Statistics of all tensors of a model, one after the other, in the background. */

import { statistics, tensorValues } from 'safetensors-mmap/inspect';
import { partNumber } from '../poster.js';
import { wholeAxis } from '../selection.js';
import { countZeroRows, firstBroken } from './health.js';
import {
  bytesRead,
  readingOrder,
  sampleAxes,
  sampleByteLength,
  sampleSize,
  selectedElements,
} from './sample.js';
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
  /** The index of the first of them, by position in the list. */
  readonly brokenAt: ReadonlyMap<number, readonly number[]>;
  /** The value of tensors that have one value only. */
  readonly constant: Float64Array;
  /** Number of rows that are nothing but zeros. */
  readonly zeroRows: Float64Array;
}

/** What is known so far. */
export interface LayersProgress extends Progress {
  readonly partial: LayerStatistics;
  /** Number of tensors that are read in all. */
  readonly tensors: number;
}

/** Tensors at a time: with requests, waiting is most of the work. */
const CONCURRENCY = { files: 1, requests: 6 };

/** Maximum number and bytes of short tensors at a time: those near each other are one request. */
const SHORT = { count: 64, byteLength: 2 ** 21 };

/** Of many tensors a report is long: it has a number of each. The first comes soon. */
const REPORT = { firstMs: 120, ms: 300, tensorsPerMs: 50 };

/** Runs work for every position, some at a time, by the bytes that each reads; a failure ends all. */
export function forEachAt(
  count: number,
  isRequested: boolean,
  byteLengthAt: (at: number) => number,
  work: (at: number) => Promise<void>,
): Promise<void> {
  const concurrency = CONCURRENCY[isRequested ? 'requests' : 'files'];
  let [next, running, bytes] = [0, 0, 0];
  return new Promise((resolve, reject) => {
    const run = (): void => {
      if (next === count && running === 0) resolve();
      while (next < count && running < SHORT.count) {
        const byteLength = byteLengthAt(next);
        if (running >= concurrency && bytes + byteLength > SHORT.byteLength) return;
        running++;
        bytes += byteLength;
        const done = (): void => {
          running--;
          bytes -= byteLength;
          run();
        };
        work(next++).then(done, (error) => {
          next = count;
          reject(error);
        });
      }
    };
    run();
  });
}

/** Calls after 120 ms, and then at most every 300 ms; for reports of many tensors less often. */
export function seldom(tensors: number, report: () => void): () => void {
  const pause = Math.max(REPORT.ms, tensors / REPORT.tensorsPerMs);
  let last = performance.now() + REPORT.firstMs - pause;
  return () => {
    if (performance.now() - last < pause) return;
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
  const { names, byteLength } = source.list;
  const column = () => new Float64Array(names.length).fill(Number.NaN);
  const brokenAt = new Map<number, readonly number[]>();
  const columns = {
    norm: column(),
    spread: column(),
    outliers: column(),
    zeros: column(),
    broken: column(),
    brokenAt,
    constant: column(),
    zeroRows: column(),
  };
  const order = readingOrder(names, isWhole);
  const size = sampleSize(source.isRequested, order.length);
  const total = isWhole
    ? byteLength.reduce((sum, one) => sum + one, 0)
    : sampleByteLength(source.list, source.isRequested);
  let done = 0;
  const report = seldom(names.length, () =>
    onProgress({ done, total, partial: columns, tensors: order.length }),
  );
  const bytesAt = (index: number): number =>
    bytesRead(source.list, order[index] as number, size, isWhole);
  await forEachAt(order.length, source.isRequested, bytesAt, async (index) => {
    const at = order[index] as number;
    const name = names[at] as string;
    const { shape, elements } = tensorFacts(source, name);
    const sample = sampleAxes(shape, size);
    const isSample = !isWhole && selectedElements(sample) < elements;
    const axes = isSample ? sample : shape.map(wholeAxis);
    const tensor = isSample ? partOf(source, name, axes, signal) : readable(source, name, signal);
    const values = () => tensorValues(tensor, { signal });
    const found = await statistics(values(), tensor.dtype);
    const { mean, std, min, max, zero } = found;
    const read = Math.max(1, found.elements);
    if (mean !== null && std !== null && min !== null && max !== null) {
      const norm = Math.hypot(mean, std);
      columns.norm[at] = norm;
      columns.spread[at] = std;
      columns.outliers[at] = norm === 0 ? 0 : Math.max(Math.abs(min), Math.abs(max)) / norm;
      if (min === max && read > 1) columns.constant[at] = min;
    }
    columns.zeros[at] = zero / read;
    columns.broken[at] = found.nan + found.infinite;
    if (found.nan + found.infinite > 0) {
      const index = await firstBroken(values(), axes);
      if (index !== null) brokenAt.set(at, index);
    }
    const width = axes.at(-1)?.count ?? 1;
    // Values are read again only where there may be such a row.
    const isBuffer = source.list.part[at] === partNumber('buffers');
    const mayBeZero = !isBuffer && shape.length > 1 && zero >= width && min !== max;
    columns.zeroRows[at] = mayBeZero ? await countZeroRows(values(), width) : 0;
    done += (byteLength[at] as number) * (selectedElements(axes) / Math.max(1, elements));
    report();
  });
  return columns;
}
