/** Direction of the changes of two models. */

import type { Tensor } from 'safetensors-mmap';
import { compareTensors } from 'safetensors-mmap/inspect';
import { wholeAxis } from '../selection.js';
import { forEachAt } from './layers.js';
import { sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { part, tensorFacts } from './values.js';

/** What is known of tensors that both models changed. */
export interface Overlap {
  /** Cosine similarity of a − base and b − base, by tensor; null where one is 0. */
  readonly cosines: readonly (number | null)[];
  readonly isSample: boolean;
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
  // Samples are short; whole tensors of three models count as long ones.
  const byteLength = isWhole ? 2 ** 30 : 0;
  await forEachAt(
    tensors.length,
    isRequested,
    () => byteLength,
    async (at) => {
      const name = tensors[at] as string;
      const { shape, elements } = tensorFacts(base, name);
      const axes = isWhole ? shape.map(wholeAxis) : sampleAxes(shape, size);
      isSample ||= selectedElements(axes) < elements;
      const parts = sources.map((source) => part(source, name, axes, signal));
      const [from, a, b] = (await Promise.all(parts)) as [Tensor, Tensor, Tensor];
      const { cosineOfChanges = null } = await compareTensors(a, b, { base: from, signal });
      cosines[at] = cosineOfChanges;
    },
  );
  return { cosines, isSample };
}
