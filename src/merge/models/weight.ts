/** A merged tensor: rows of all inputs are read, and merged by the method. */

import type { Computation } from '../../file/source/view.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import { runAsync, runSync, type Work } from '../../work/work.js';
import { WeightedRows } from '../direct-rows.js';
import { type DirectRows, type MergedTensor, mergedSlice, mergedTensor } from '../rows.js';
import { surveyedRows } from '../survey.js';
import type { OpenRows, RowSource } from './inputs.js';
import { readTogether } from './inputs.js';
import type { InputRows, Kernel } from './methods/kernel.js';

/** The computation of a tensor that is merged from several. */
export class MergedModelWeight implements Computation {
  readonly #merged: MergedTensor;
  readonly #rows: number;
  readonly #inputs: readonly RowSource[];
  readonly #kernel: Kernel;
  #surveyed: Promise<void> | undefined;

  constructor(merged: MergedTensor, rows: number, inputs: readonly RowSource[], kernel: Kernel) {
    this.#merged = merged;
    this.#rows = rows;
    this.#inputs = inputs;
    this.#kernel = kernel;
  }

  /** Takes the tensors of local inputs now, so that closing their models leaves the result usable. */
  compute(): Tensor {
    const inputs = this.#inputs.map((input) => input.open());
    const [{ tensor }] = inputs as [OpenRows];
    const fill = (first: number, values: Float64Array): void => {
      runSync(this.#survey(inputs));
      runSync(this.#fill(inputs, first, values));
    };
    return mergedTensor(tensor as Tensor, this.#merged, fill, this.#directRows(inputs));
  }

  /** For sums of stored rows. */
  #directRows(inputs: readonly OpenRows[]): DirectRows | null {
    const kernel = this.#kernel;
    const tensors = inputs.flatMap(({ tensor, areWhole }) => (areWhole && tensor) || []);
    const areAll =
      tensors.length === inputs.length && tensors.every(({ dtype }) => dtype !== 'F64');
    if (!areAll || kernel.coefficients === undefined) return null;
    return new WeightedRows(tensors, this.#merged, () => kernel.coefficients?.() ?? null);
  }

  async fetch(index: SliceIndices, options: TransferOptions): Promise<Tensor> {
    const inputs = this.#inputs.map((input) => input.open());
    return await mergedSlice(this.#merged, index, options, async (first, values) => {
      await this.#surveyOnce(inputs, options.signal);
      await runAsync(this.#fill(inputs, first, values), options.signal);
    });
  }

  /** Once for all calls, and again after a failure. */
  async #surveyOnce(inputs: readonly OpenRows[], signal: AbortSignal | undefined): Promise<void> {
    this.#surveyed ??= runAsync(this.#survey(inputs), signal);
    try {
      await this.#surveyed;
    } catch (error) {
      this.#surveyed = undefined;
      throw error;
    }
  }

  *#survey(inputs: readonly OpenRows[]): Work<void> {
    const { survey } = this.#kernel;
    if (survey === undefined) return;
    const { columns } = this.#merged;
    for (const { first, count } of surveyedRows(survey, this.#rows, columns)) {
      survey.count(yield* this.#read(inputs, first, count * columns), first * columns);
      yield;
    }
  }

  *#fill(inputs: readonly OpenRows[], first: number, values: Float64Array): Work<void> {
    const rows = yield* this.#read(inputs, first, values.length);
    this.#kernel.combine(rows, first * this.#merged.columns, values);
  }

  *#read(inputs: readonly OpenRows[], first: number, length: number): Work<InputRows> {
    const rows = inputs.map(() => new Float64Array(length));
    yield* readTogether(inputs, first, rows);
    return rows;
  }
}
