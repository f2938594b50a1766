/** Elements of stored tensors, surveyed and merged by native kernels. */

import type { CastSource } from '../tensor/float32/cast.js';
import { nativeKernels, type SurveyedElements } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { allSettled } from '../work/all-settled.js';
import { call, type Work } from '../work/work.js';
import { bytesOfElements } from './values.js';

/** What a kernel adds up in a pass over the elements of some inputs. */
export interface ElementSurvey extends Pick<SurveyedElements, 'kind' | 'rule' | 'results'> {
  /** Positions of the inputs. */
  readonly inputs: readonly number[];
}

/** What is kept of a task vector, as numbers for kernels. */
export type Selection = readonly [kind: number, number, number, number];

/** Keeps all. */
export const SELECT_ALL: Selection = [0, 0, 0, 0];

/** Keeps the largest elements: those above a bit pattern, and those with it up to a position. */
export function selectLargest(pattern: number, last: number): Selection {
  return [1, pattern, last, 0];
}

/** Keeps elements for which the generator gives a number below the limit. */
export function selectDrawn(key: readonly [number, number], limit: number): Selection {
  return [2, ...key, limit];
}

const [WEIGHTED, SUMMED, VOTED] = [0, 1, 2];

/** Returns the rules of a sum of inputs, each times its coefficient. */
export function weightedRules(coefficients: readonly number[]): Float64Array {
  return Float64Array.of(WEIGHTED, ...coefficients);
}

/** How task vectors are added up. */
export interface TaskVectorSum {
  readonly isVoted: boolean;
  readonly lambda: number;
  readonly isNormalized: boolean;
  readonly models: readonly {
    readonly factor: number;
    readonly weight: number;
    readonly selection: Selection;
  }[];
}

/** Returns the rules of a sum of task vectors. Normalizes only voted ones: otherwise the factors include it. */
export function taskVectorRules({
  isVoted,
  lambda,
  isNormalized,
  models,
}: TaskVectorSum): Float64Array {
  const numbers = models.flatMap(({ factor, weight, selection }) => [factor, weight, ...selection]);
  return Float64Array.of(isVoted ? VOTED : SUMMED, lambda, isNormalized ? 1 : 0, ...numbers);
}

/** Number of inputs that rules are for: a weighted sum ignores others. */
export function inputCount(rules: Float64Array, count: number): number {
  return rules[0] === WEIGHTED ? rules.length - 1 : count;
}

/** Surveys elements of the inputs by kernels: on the pool all surveys at once. */
export function surveyElements(
  surveys: readonly ElementSurvey[],
  inputs: readonly Tensor[],
  first: number,
  count: number,
): Work<void> {
  const kernels = nativeKernels();
  const used = inputs.map((_, i) => surveys.some((survey) => survey.inputs.includes(i)));
  const readAll = (read: typeof elementsHere): (Uint8Array | undefined)[] =>
    inputs.map((tensor, i) => (used[i] === true ? read(tensor, first, count) : undefined));
  const elements = (all: (Uint8Array | undefined)[], survey: ElementSurvey): SurveyedElements => ({
    ...survey,
    first,
    from: survey.inputs.map((i) => inputs[i]?.dtype as CastSource),
    bytes: survey.inputs.map((i) => all[i] as Uint8Array),
  });
  const verify = (): void => {
    for (const tensor of inputs) TensorOf.sourceOf(tensor).verify();
  };
  return call({
    sync: () => {
      const all = readAll(elementsHere);
      for (const survey of surveys) kernels?.survey(elements(all, survey));
      verify();
    },
    async: async () => {
      const all = readAll(elementsForPool);
      await allSettled(surveys.map((survey) => kernels?.surveyAsync(elements(all, survey))));
      verify();
    },
  });
}

/** Elements in memory that may be the caller's. */
export function elementsHere(tensor: Tensor, first: number, count: number): Uint8Array {
  const source = TensorOf.sourceOf(tensor);
  const { begin, end } = bytesOfElements(tensor, first, count);
  return source.isComputed ? source.window(begin, end) : source.sharedOrWindow(begin, end);
}

/** Elements in memory that no other code can reach. */
export function elementsForPool(tensor: Tensor, first: number, count: number): Uint8Array {
  const source = TensorOf.sourceOf(tensor);
  const { begin, end } = bytesOfElements(tensor, first, count);
  return source.hold(begin, end) ?? source.window(begin, end).slice();
}
