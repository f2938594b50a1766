/** The interface of merge methods: rows of all inputs to rows of the result. */

import type { ElementSurvey, Selection } from '../../elements.js';
import type { Survey } from '../../survey.js';

/** The same rows of all inputs. */
export type InputRows = readonly Float64Array[];

/** Merges rows of one tensor. */
export interface Kernel {
  /** For a method that depends on all rows. */
  readonly survey?: ModelSurvey | undefined;
  /**
   * Merges rows into `output`. May overwrite the inputs.
   *
   * @param first the position of the first value among the elements of the tensor
   */
  combine(inputs: InputRows, first: number, output: Float64Array): void;
  /** Rules of the same merge for kernels, once all rows were surveyed; undefined if only TypeScript has it. */
  readonly rules?: (() => Float64Array) | undefined;
}

/** A survey of the rows of all inputs. */
export interface ModelSurvey extends Survey<InputRows> {
  /** What the pass that has begun counts, for kernels. */
  readonly ofElements: readonly ElementSurvey[];
}

/** The inputs of one tensor, and the parameters for it. */
export interface KernelInputs {
  /** Number of inputs. Methods with task vectors have the base as the first. */
  readonly count: number;
  /** Parameters of inputs, in their order; those of the base are absent. */
  readonly parameters: readonly Readonly<Record<string, number>>[];
  /** Parameters of the method. */
  readonly settings: Readonly<Record<string, number>>;
  readonly elementCount: number;
  /** Length of the last dimension; the number of elements of a vector. */
  readonly rowLength: number;
  /** What is drawn for an input. */
  draw(input: number, density: number): Draw;
}

/** A random choice of elements. */
export interface Draw {
  /** Sets 1 for each element that is kept, from the element `first` on; else 0. */
  fill(first: number, kept: Uint8Array): void;
  /** The same choice for kernels; undefined if only TypeScript has it. */
  readonly selection: Selection | undefined;
}
