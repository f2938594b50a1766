/** What an adapter does to one weight: steps that change its rows. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Survey } from '../survey.js';
import type { PartTensor } from './keys.js';
import type { Factors } from './product.js';

/** The kind of a change. */
export type AdapterKind =
  | 'lora'
  | 'dora'
  | 'loha'
  | 'lokr'
  | 'ia3'
  | 'diff'
  | 'bias'
  | 'replaced'
  | 'tokens';

/** A weight that adapters change, as data: an item of `changes`. */
export interface AdapterChange {
  /** The name of the weight in the base. */
  readonly name: string;
  /**
   * The kind of adapter. `diff` adds a whole tensor, `bias` what a LoRA adds to a bias, `replaced` takes the place of
   * the weight, and `tokens` of some of its rows.
   */
  readonly kind: AdapterKind;
  /** Rank of the factors; null for a change without factors. */
  readonly rank: number | null;
  /** Factor of the change: alpha / rank, times the adapter's scale. */
  readonly scale: number;
}

/** A step with its factors in memory. */
export interface Step {
  /** Changes the rows from `first` on, in place. */
  apply(values: Float64Array, first: number): void;
  /** For a step that only adds the product of these factors. */
  readonly factors?: Factors | undefined;
  /** For a step that depends on all rows. */
  readonly survey?: Survey<Float64Array> | undefined;
}

/** A weight of the base as a matrix. */
export interface TargetWeight {
  readonly entry: TensorEntry;
  readonly rows: number;
  readonly columns: number;
}

/** A weight, or the rows of it that one change concerns. */
export interface Slot extends TargetWeight {
  /** The shape of these rows. */
  readonly shape: readonly number[];
  /** The first of them. */
  readonly begin: number;
}

/** A change of one weight by one adapter. */
export interface WeightChange extends Omit<AdapterChange, 'name'> {
  /** Whether its rows are those of all dimensions but the last, as of experts. */
  readonly ofExperts?: boolean | undefined;
  /** Loads the factors, which are used until the steps are dropped. */
  open(): readonly Step[];
}

/** A change, and the tensors of the adapter that it may depend on. */
export interface SourcedChange extends WeightChange {
  /** The adapter, for messages. */
  readonly label: string;
  readonly path: string | undefined;
  readonly parts: readonly PartTensor[];
}

/** Returns the same steps for some rows of the weight: those of a fused projection. */
export function inRows(
  steps: readonly Step[],
  begin: number,
  end: number,
  columns: number,
): Step[] {
  return steps.map((step) => ({
    apply(values, first) {
      const last = first + values.length / columns;
      const [from, to] = [Math.max(first, begin), Math.min(last, end)];
      if (from >= to) return;
      step.apply(values.subarray((from - first) * columns, (to - first) * columns), from - begin);
    },
  }));
}
