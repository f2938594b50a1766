/** A merged weight: its rows pass through the steps of all adapters, one after the other. */

import type { Computation } from '../../file/source/view.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import { SharedCall } from '../../work/scope.js';
import { call, immediate, type Work } from '../../work/work.js';
import { yieldIfDue } from '../../work/yielding.js';
import { fetchRows, filePath, type OwnMergeSource } from '../base.js';
import { type FactorsOf, ProductOfRows } from '../direct-rows.js';
import {
  LastMergedTensor,
  type MergedTensor,
  mergedSlice,
  mergedTensor,
  rowsAtOnce,
} from '../rows.js';
import { type RowRange, surveyedRows } from '../survey.js';
import { areFinite, type MergeDtype, type NonFiniteInput, readValues } from '../values.js';
import type { SourcedChange, Step, TargetWeight } from './change.js';
import { valuesOf } from './factors.js';
import { Factors } from './product.js';
import { addFactors } from './steps.js';

/** Weights whose factors are retained: writers compute a few at a time, each piece by piece. */
const MAX_RECENT = 4;

/** Retains the factors of the recent weights. */
export class RecentSteps {
  /** By weight, the one used last at the end. */
  readonly #recent = new Map<MergedWeight, readonly Step[]>();
  #last: readonly [MergedWeight, readonly Step[]] | undefined;

  /** The steps of a weight. */
  of(weight: MergedWeight): readonly Step[] {
    // Rows are often requested one after the other.
    if (this.#last?.[0] === weight) return this.#last[1];
    const steps = this.#recent.get(weight) ?? weight.open();
    this.#recent.delete(weight);
    const [oldest] = this.#recent.keys();
    if (oldest !== undefined && this.#recent.size >= MAX_RECENT) this.#recent.delete(oldest);
    this.#recent.set(weight, steps);
    this.#last = [weight, steps];
    return steps;
  }
}

/** How weights are merged. */
export interface WeightContext {
  readonly base: OwnMergeSource;
  readonly recent: RecentSteps;
  readonly mustBeFinite: boolean;
}

/** Reads rows of the base, from `first` on, as many as fit. */
type ReadRows = (
  first: number,
  values: Float64Array,
  signal: AbortSignal | undefined,
) => Promise<void>;

/** The computation of a weight by all of its changes. */
export class MergedWeight implements Computation {
  readonly #target: TargetWeight;
  readonly #changes: readonly SourcedChange[];
  readonly #context: WeightContext;
  readonly #last = new LastMergedTensor();
  #isSurveyed = false;
  #surveying: SharedCall<void> | undefined;

  constructor(target: TargetWeight, changes: readonly SourcedChange[], context: WeightContext) {
    this.#target = target;
    this.#changes = changes;
    this.#context = context;
  }

  /** Loads the factors; products that follow each other are one. */
  open(): readonly Step[] {
    const steps: Step[] = [];
    for (const step of this.#changes.flatMap((change) => change.open())) {
      const last = steps.at(-1)?.factors;
      if (last === undefined || step.factors === undefined) steps.push(step);
      else steps[steps.length - 1] = addFactors(Factors.sum(last, step.factors));
    }
    return steps;
  }

  compute(sources: ReadonlyMap<string, Tensor>): Tensor {
    const source = sources.get(this.#target.entry.name) as Tensor;
    return this.#last.over([source], () => this.#over(source));
  }

  #over(source: Tensor): Tensor {
    const { columns } = this.#target;
    const fill = (first: number, values: Float64Array): void => {
      const steps = this.#context.recent.of(this);
      for (const { first: row, count } of this.#surveys(steps)) {
        const rows = new Float64Array(count * columns);
        readValues(source, row * columns, rows);
        this.#survey(steps, row, rows);
      }
      readValues(source, first * columns, values);
      for (const step of steps) step.apply(values, first);
    };
    const factorsOf: FactorsOf = (first, count) => {
      const [only, second] = this.#context.recent.of(this);
      return second === undefined ? (only?.factors?.ofRows(first, count) ?? null) : null;
    };
    const merged = this.#mergedFrom((first, values) =>
      immediate(() => readValues(source, first * columns, values)),
    );
    const direct = new ProductOfRows(source, merged, factorsOf);
    return mergedTensor(source, merged, fill, direct, async (first, values, signal) => {
      if (!this.#isSurveyed) {
        await this.#surveyOnce(
          async (row, rows) => readValues(source, row * columns, rows),
          signal,
        );
      }
      await yieldIfDue();
      signal?.throwIfAborted();
      fill(first, values);
    });
  }

  async fetch(
    index: SliceIndices,
    options: { readonly signal?: AbortSignal | undefined },
  ): Promise<Tensor> {
    const read: ReadRows = (first, values, signal) => this.#fetch(first, values, signal);
    const merged = this.#mergedFrom((first, values) =>
      call({ async: (signal) => read(first, values, signal) }),
    );
    return await mergedSlice(merged, index, options, async (first, values) => {
      if (!this.#isSurveyed) await this.#surveyOnce(read, options.signal);
      const steps = this.#context.recent.of(this);
      await read(first, values, options.signal);
      for (const step of steps) step.apply(values, first);
    });
  }

  /** Counts the rows of the base between other events: once for all calls, and again after a failure. */
  async #surveyOnce(read: ReadRows, signal: AbortSignal | undefined): Promise<void> {
    if (this.#surveying === undefined || this.#surveying.isAbandoned) {
      this.#surveying = new SharedCall((shared) => this.#surveyAll(read, shared));
    }
    await this.#surveying.wait(signal);
  }

  async #surveyAll(read: ReadRows, signal: AbortSignal): Promise<void> {
    const steps = this.#context.recent.of(this);
    for (const { first, count } of this.#surveys(steps)) {
      await yieldIfDue();
      signal.throwIfAborted();
      const rows = new Float64Array(count * this.#target.columns);
      await read(first, rows, signal);
      // Another call may have begun again.
      signal.throwIfAborted();
      this.#survey(steps, first, rows);
    }
    this.#isSurveyed = true;
  }

  /** @param read reads rows of the base, from `first` on, as many as fit */
  #mergedFrom(read: (first: number, values: Float64Array) => Work<void>): MergedTensor {
    const { entry, columns } = this.#target;
    const { base, mustBeFinite } = this.#context;
    const { name, shape } = entry;
    const dtype = entry.dtype as MergeDtype;
    const findNonFinite = (): Work<NonFiniteInput | undefined> => this.#findNonFinite(read);
    return { name, dtype, shape, columns, path: base.path, mustBeFinite, findNonFinite };
  }

  *#findNonFinite(
    read: (first: number, values: Float64Array) => Work<void>,
  ): Work<NonFiniteInput | undefined> {
    const { entry, rows, columns } = this.#target;
    for (const { begin, end } of cut(0, rows, rowsAtOnce(columns))) {
      const values = new Float64Array((end - begin) * columns);
      yield* read(begin, values);
      if (!areFinite(values)) {
        const path = filePath(this.#context.base, entry);
        return { label: 'the base', path, tensor: entry.name };
      }
      yield;
    }
    for (const { label, path, parts } of this.#changes) {
      const found = parts.find(({ tensor }) => !areFinite(valuesOf(tensor)));
      if (found !== undefined) return { label, path, tensor: found.key };
    }
    return undefined;
  }

  /** Fetches rows of a remote base. */
  async #fetch(
    first: number,
    values: Float64Array,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { entry, rows } = this.#target;
    await fetchRows(this.#context.base, entry, { rows, first }, values, signal);
  }

  /** Yields all rows for every step that has yet to count them. */
  *#surveys(steps: readonly Step[]): Generator<RowRange, void, void> {
    const { rows, columns } = this.#target;
    for (const { survey } of steps) {
      if (survey !== undefined) yield* surveyedRows(survey, rows, columns);
    }
  }

  /** Counts rows for the first step that has yet to count them. */
  #survey(steps: readonly Step[], first: number, rows: Float64Array): void {
    for (const step of steps) {
      if (step.survey?.isDone === false) {
        step.survey.count(rows, first * this.#target.columns);
        return;
      }
      step.apply(rows, first);
    }
  }
}
