/** What differs between two models: their tensors by name, and the values of those that both have. */

import { compareTensors } from 'safetensors-mmap/inspect';
import type { Axis } from '../selection.js';
import { dimensions, type TensorList } from './info.js';
import { forEachAt, seldom } from './layers.js';
import { bytesRead, readingOrder, sampleAxes, sampleSize, selectedElements } from './sample.js';
import type { Source } from './sources.js';
import { type Progress, partOf } from './statistics.js';
import { readable, tensorFacts } from './values.js';

/** A tensor that one model lacks, or whose dtype or shape differs: each as text, empty where it is missing. */
export interface DifferingTensor {
  readonly difference: 'added' | 'removed' | 'changed';
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

/** Names of two models side by side. */
export interface NameDifference {
  /** Those only in the second, those only in the first, those in both. */
  readonly differing: readonly DifferingTensor[];
  /** Tensors that both have with one shape: their values can be compared. */
  readonly comparable: number;
}

/** Differences of values by position in the list of the first; NaN for tensors not read, or in one model only. */
export interface ValueDifferences {
  /** ‖a − b‖ / ‖a‖. */
  readonly relative: Float64Array;
  /** Share of values that differ. */
  readonly differing: Float64Array;
  /** Number of values that differ. */
  readonly count: Float64Array;
  /** Number of places with NaN or an infinity. */
  readonly nonFinite: Float64Array;
  /** NaN without values that are numbers in both. */
  readonly maxError: Float64Array;
}

/** What is known so far. */
export interface DifferProgress extends Progress {
  readonly partial: ValueDifferences;
}

function described(list: TensorList, at: number): string {
  return `${list.kinds[list.kind[at] as number]} ${list.shapes[at]}`;
}

function positions({ names }: TensorList): Map<string, number> {
  return new Map(names.map((name, at) => [name, at]));
}

/**
 * Compares names, dtypes and shapes. The scheme of a quantized weight takes the place of its dtype: so one that is
 * quantized in another way is changed, and one that cannot be dequantized is compared as it is stored.
 */
export function nameDifference({ list: first }: Source, { list: second }: Source): NameDifference {
  const [ofFirst, ofSecond] = [positions(first), positions(second)];
  const differing: DifferingTensor[] = [];
  let comparable = 0;
  for (const [name, at] of ofSecond) {
    if (ofFirst.has(name)) continue;
    differing.push({ difference: 'added', name, before: '', after: described(second, at) });
  }
  for (const [name, at] of ofFirst) {
    const [before, other] = [described(first, at), ofSecond.get(name)];
    const after = other === undefined ? '' : described(second, other);
    if (other !== undefined && first.shapes[at] === second.shapes[other]) comparable++;
    if (before === after) continue;
    differing.push({
      ...{ difference: other === undefined ? 'removed' : 'changed', name, before, after },
    });
  }
  return { differing, comparable };
}

/** Compares the values of tensors that both have with one shape: of samples at the same places, or all. */
export async function valueDifferences(
  first: Source,
  second: Source,
  isWhole: boolean,
  signal: AbortSignal,
  onProgress: (progress: DifferProgress) => void,
): Promise<ValueDifferences> {
  const { list } = first;
  const after = positions(second.list);
  const isRequested = first.isRequested || second.isRequested;
  const order = readingOrder(list.names, isWhole);
  const compared = order.filter((at) => {
    const other = after.get(list.names[at] as string);
    return other !== undefined && second.list.shapes[other] === list.shapes[at];
  });
  const size = sampleSize(isRequested, order.length);
  const column = () => new Float64Array(list.names.length).fill(Number.NaN);
  const partial = {
    relative: column(),
    differing: column(),
    count: column(),
    nonFinite: column(),
    maxError: column(),
  };
  const shareOf = (axes: readonly Axis[], elements: number): number =>
    isWhole ? 1 : selectedElements(axes) / Math.max(1, elements);
  const total = compared.reduce((sum, at) => {
    const axes = sampleAxes(dimensions(list.shapes[at] as string), size);
    return sum + (list.byteLength[at] as number) * shareOf(axes, list.elements[at] as number);
  }, 0);
  let done = 0;
  const report = seldom(list.names.length, () => onProgress({ done, total, partial }));
  const bytesAt = (index: number): number =>
    bytesRead(list, compared[index] as number, size, isWhole);
  await forEachAt(compared.length, isRequested, bytesAt, async (index) => {
    const at = compared[index] as number;
    const name = list.names[at] as string;
    const { shape, elements, byteLength } = tensorFacts(first, name);
    const axes = sampleAxes(shape, size);
    const isSample = !isWhole && selectedElements(axes) < elements;
    const tensorOf = (source: Source) =>
      isSample ? partOf(source, name, axes, signal) : readable(source, name, signal);
    const {
      relative,
      differing,
      nonFinite,
      maxError,
      elements: read,
    } = await compareTensors(tensorOf(first), tensorOf(second), { signal });
    // Zeros before, and others after, differ by all that there is; NaN in one only has no size.
    partial.relative[at] = relative ?? ((maxError ?? 0) > 0 ? 1 : 0);
    partial.count[at] = differing;
    partial.nonFinite[at] = nonFinite;
    partial.differing[at] = differing / Math.max(1, read);
    partial.maxError[at] = maxError ?? Number.NaN;
    done += byteLength * shareOf(axes, elements);
    report();
  });
  return partial;
}
