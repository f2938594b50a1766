/** Direction of the changes of two models. */

import { valueNumbers } from 'safetensors-mmap/inspect';
import { wholeAxis } from '../selection.js';
import { forEachAt } from './layers.js';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { part, tensorFacts } from './values.js';

/** What is known of tensors that both models changed. */
export interface Overlap {
  /** Cosine similarity of a − base and b − base, by tensor; null where it is undefined or overflows. */
  readonly cosines: readonly (number | null)[];
  readonly isSample: boolean;
}

/** The cosine of two changes, of values that are finite in all three; null where a change is 0, or squares overflow. */
function cosineOfChanges(
  base: ArrayLike<number>,
  a: ArrayLike<number>,
  b: ArrayLike<number>,
): number | null {
  let [dot, squaresA, squaresB] = [0, 0, 0];
  for (let i = 0; i < base.length; i++) {
    const from = base[i] as number;
    const [changeA, changeB] = [(a[i] as number) - from, (b[i] as number) - from];
    if (!Number.isFinite(changeA) || !Number.isFinite(changeB)) continue;
    dot += changeA * changeB;
    squaresA += changeA * changeA;
    squaresB += changeB * changeB;
  }
  const cosine = dot / (Math.sqrt(squaresA) * Math.sqrt(squaresB));
  const isDefined = [cosine, squaresA, squaresB].every(Number.isFinite);
  return isDefined ? Math.min(1, Math.max(-1, cosine)) : null;
}

/** Compares tensors that all three have with one shape: samples, or all values. */
export async function overlap(
  sources: readonly [base: Source, a: Source, b: Source],
  tensors: readonly string[],
  isWhole: boolean,
  signal: AbortSignal,
): Promise<Overlap> {
  const [base] = sources;
  const isRequested = sources.some((source) => source.isRequested);
  // Of one tensor the sample is as large as one of many.
  const size = sampleSize(isRequested, Math.max(2, tensors.length));
  const cosines: (number | null)[] = [];
  let isSample = false;
  const total = isWhole ? base.list.byteLength.reduce((sum, one) => sum + one, 0) : 0;
  await forEachAt(tensors.length, isRequested, total, async (at) => {
    const name = tensors[at] as string;
    const { shape, elements } = tensorFacts(base, name);
    const axes = isWhole ? shape.map(wholeAxis) : sampleAxes(shape, size);
    isSample ||= selectedElements(axes) < elements;
    const values = async (source: Source) => valueNumbers(await part(source, name, axes, signal));
    const [of, a, b] = await Promise.all([
      values(sources[0]),
      values(sources[1]),
      values(sources[2]),
    ]);
    cosines[at] = cosineOfChanges(of, a, b);
  });
  return { cosines, isSample };
}
