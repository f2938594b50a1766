/** Elements of stored tensors, surveyed and merged by native kernels. */

import type { CastSource } from '../tensor/float32/cast.js';
import { nativeKernels, type SurveyedElements } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { type ByteRange, cut } from '../work/byte-ranges.js';
import { limit, Slots } from '../work/slots.js';
import { call, type Work } from '../work/work.js';
import { bytesOfElements } from './values.js';

/**
 * Elements whose sums are added up by themselves: pieces begin at multiples of this position, so that sums have the
 * same bits whatever is read at once, and on any number of threads. A multiple of the lanes.
 */
export const PIECE_LENGTH: number = 2 ** 19;

/** Surveys of pieces at once, each on a thread of the pool: they leave two for other work. */
const SURVEYED_AT_ONCE = 2;

/** What a kernel adds up in a pass over the elements of some inputs. */
export interface ElementSurvey extends Pick<SurveyedElements, 'kind' | 'rule'> {
  /** Positions of the inputs. */
  readonly inputs: readonly number[];
  /** Memory for the results of a piece. Calls with other numbers of `thread` may run at the same time. */
  resultsOf(piece: number, thread: number): Float64Array;
  /** For a survey of pieces in order, one after the other: whether it needs no further ones. */
  readonly isOver?: (() => boolean) | undefined;
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

/** Surveys all elements of the inputs by kernels: on this thread, or on the pool. */
export function surveyElements(
  surveys: readonly ElementSurvey[],
  inputs: readonly Tensor[],
  count: number,
): Work<void> {
  const elements = (
    survey: ElementSurvey,
    { begin, end }: ByteRange,
    thread: number,
    read: typeof elementsHere,
  ): SurveyedElements => {
    const tensors = survey.inputs.map((i) => inputs[i] as Tensor);
    return {
      kind: survey.kind,
      rule: survey.rule,
      results: survey.resultsOf(Math.floor(begin / PIECE_LENGTH), thread),
      first: begin,
      from: tensors.map(({ dtype }) => dtype as CastSource),
      bytes: tensors.map((tensor) => read(tensor, begin, end - begin)),
    };
  };
  const verify = ({ inputs: used }: ElementSurvey): void => {
    for (const i of used) TensorOf.sourceOf(inputs[i] as Tensor).verify();
  };
  return call({
    sync: () => {
      for (const { survey, pieces } of surveysOfPieces(surveys, count)) {
        for (const piece of pieces) {
          if (survey.isOver?.() === true) break;
          nativeKernels()?.survey(elements(survey, piece, 0, elementsHere));
          verify(survey);
        }
      }
    },
    async: async (signal) => {
      const threads = Array.from({ length: SURVEYED_AT_ONCE }, (_, thread) => thread);
      const run = async ({ survey, pieces }: SurveyOfPieces): Promise<void> => {
        const thread = threads.pop() as number;
        for (const piece of pieces) {
          signal?.throwIfAborted();
          if (survey.isOver?.() === true) break;
          await nativeKernels()?.surveyAsync(elements(survey, piece, thread, elementsForPool));
          verify(survey);
        }
        threads.push(thread);
      };
      await limit(surveysOfPieces(surveys, count), new Slots(SURVEYED_AT_ONCE), run, signal);
    },
  });
}

/** A survey of some pieces, one after the other. */
interface SurveyOfPieces {
  readonly survey: ElementSurvey;
  readonly pieces: Iterable<ByteRange>;
}

/** Surveys of all pieces, which may run at the same time. Those of the same piece follow each other. */
function* surveysOfPieces(
  surveys: readonly ElementSurvey[],
  count: number,
): Generator<SurveyOfPieces, void, void> {
  const inOrder = surveys.filter(({ isOver }) => isOver !== undefined);
  for (const survey of inOrder) yield { survey, pieces: cut(0, count, PIECE_LENGTH) };
  const others = surveys.filter(({ isOver }) => isOver === undefined);
  for (const piece of cut(0, count, PIECE_LENGTH)) {
    for (const survey of others) yield { survey, pieces: [piece] };
  }
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
