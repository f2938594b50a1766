/** A tensor of two sources: statistics of each, histograms over one range, and how much they differ. */

import type { Dtype } from 'safetensors-mmap';
import {
  compareTensors,
  histogram,
  type Statistics,
  statistics,
  tensorValues,
} from 'safetensors-mmap/inspect';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { BINS, clippedRange, FINE_BINS, partOf } from './statistics.js';
import { tensorFacts } from './values.js';

/** What is known of the values of both. */
export interface TensorPair {
  readonly statistics: readonly [Statistics, Statistics];
  /** The range of the histograms, and the counts of each; null without finite values. */
  readonly histograms: {
    readonly min: number;
    readonly max: number;
    readonly counts: readonly (readonly number[])[];
  } | null;
  /** ‖a − b‖ ÷ ‖a‖; null where a is 0. */
  readonly relative: number | null;
  /** Cosine similarity of the values that are finite in both; null where one is 0. */
  readonly cosine: number | null;
  /** Share of values that differ. */
  readonly differing: number;
  readonly maxError: number | null;
  readonly isSample: boolean;
}

/** Compares a sample of a tensor, the same of both; null where one lacks it, or has another shape. */
export async function tensorPair(
  first: Source,
  second: Source,
  name: string,
  signal: AbortSignal,
): Promise<TensorPair | null> {
  const { shape, elements, kind, quantization } = tensorFacts(first, name);
  const other = second.entries.get(name);
  if (String(other?.shape) !== String(shape)) return null;
  const axes = sampleAxes(shape, sampleSize(first.isRequested || second.isRequested));
  const parts = [first, second].map((source) => partOf(source, name, axes, signal));
  const values = (at: number) => tensorValues(parts[at] as (typeof parts)[number], { signal });
  const dtype = quantization === null ? (kind as Dtype) : 'F32';
  const [a, b] = [await statistics(values(0), dtype), await statistics(values(1), dtype)];
  const ends = [a.min, a.max, b.min, b.max].filter((end) => end !== null);
  const range = { min: Math.min(...ends), max: Math.max(...ends) };
  const hasBins = ends.length > 0 && range.min < range.max;
  const clipped = [0, 1].map(async (at) =>
    hasBins ? clippedRange(await histogram(values(at), range, FINE_BINS)) : null,
  );
  // Nearly all values of both.
  const both = (await Promise.all(clipped)).map((one) => one ?? range);
  const shown = {
    min: Math.min(...both.map(({ min }) => min)),
    max: Math.max(...both.map(({ max }) => max)),
  };
  const counts = hasBins
    ? [await histogram(values(0), shown, BINS), await histogram(values(1), shown, BINS)]
    : [];
  const [one, two] = parts as [(typeof parts)[number], (typeof parts)[number]];
  const found = await compareTensors(one, two, { signal });
  return {
    statistics: [a, b],
    histograms: hasBins
      ? { min: shown.min, max: shown.max, counts: counts.map((each) => each?.counts ?? []) }
      : null,
    relative: found.relative,
    cosine: found.cosine,
    differing: found.differing / Math.max(1, found.elements),
    maxError: found.maxError,
    isSample: selectedElements(axes) < elements,
  };
}
