/** A merged tensor: rows of all inputs are read, and merged by the method. */

import type { Computation } from '../../file/source/view.js';
import { nativeKernels } from '../../tensor/float32/kernels.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type ByteRange, cut } from '../../work/byte-ranges.js';
import { SharedCall } from '../../work/scope.js';
import type { TransferOptions } from '../../work/transfer.js';
import { runAsync, runSync, type Work } from '../../work/work.js';
import { MergedRows } from '../direct-rows.js';
import { surveyElements } from '../elements.js';
import {
  type DirectRows,
  LastMergedTensor,
  type MergedTensor,
  mergedSlice,
  mergedTensor,
} from '../rows.js';
import { surveyedRows } from '../survey.js';
import { areFinite, type NonFiniteInput } from '../values.js';
import type { OpenRows, RowSource } from './inputs.js';
import { readTogether } from './inputs.js';
import type { InputRows, Kernel } from './methods/kernel.js';

/** Values of each input that are merged at once. */
const BLOCK_LENGTH = 2 ** 15;

/** The computation of a tensor that is merged from several. */
export class MergedModelWeight implements Computation {
  readonly #merged: Omit<MergedTensor, 'findNonFinite'>;
  readonly #rows: number;
  readonly #inputs: readonly RowSource[];
  readonly #nameOf: (input: number) => NonFiniteInput;
  readonly #makeKernel: () => Kernel;
  readonly #hasRules: boolean;
  readonly #last = new LastMergedTensor();
  /** The kernel that knows what it needs of all rows. */
  #kernel: Kernel | undefined;
  #surveyed: SharedCall<Kernel> | undefined;

  /** Each survey makes a kernel: one on this thread may begin while another waits. */
  constructor(
    merged: Omit<MergedTensor, 'findNonFinite'>,
    rows: number,
    inputs: readonly RowSource[],
    nameOf: (input: number) => NonFiniteInput,
    makeKernel: () => Kernel,
  ) {
    this.#merged = merged;
    this.#rows = rows;
    this.#inputs = inputs;
    this.#nameOf = nameOf;
    this.#makeKernel = makeKernel;
    const kernel = makeKernel();
    this.#hasRules = kernel.rules !== undefined;
    if (kernel.survey === undefined) this.#kernel = kernel;
  }

  /** Takes the tensors of local inputs now, so that closing their models leaves the result usable. */
  compute(): Tensor {
    const tensors = this.#inputs.map((input) => input.tensor() as Tensor);
    return this.#last.over(tensors, () => this.#over(this.#inputs.map((input) => input.open())));
  }

  #over(inputs: readonly OpenRows[]): Tensor {
    const [{ tensor }] = inputs as [OpenRows];
    const fill = (first: number, values: Float64Array): void => {
      runSync(this.#fill(this.#surveyHere(inputs), inputs, first, values));
    };
    const merged = this.#mergedFrom(inputs);
    const direct = this.#directRows(inputs, merged);
    return mergedTensor(tensor as Tensor, merged, fill, direct, async (first, values, signal) => {
      await this.#fillYielding(inputs, first, values, signal);
    });
  }

  #directRows(inputs: readonly OpenRows[], merged: MergedTensor): DirectRows | null {
    const tensors = this.#storedTensors(inputs);
    if (tensors === null) return null;
    return new MergedRows(tensors, merged, {
      here: () => rulesOf(this.#surveyHere(inputs)),
      onPool: async (signal) => rulesOf(this.#kernel ?? (await this.#surveyOnce(inputs, signal))),
    });
  }

  /** The tensors of all inputs, if kernels can merge them: stored as they are, in up to 32 bits an element. */
  #storedTensors(inputs: readonly OpenRows[]): readonly Tensor[] | null {
    const tensors = inputs.flatMap(({ tensor, areWhole }) => (areWhole && tensor) || []);
    const areAll =
      tensors.length === inputs.length && tensors.every(({ dtype }) => dtype !== 'F64');
    return areAll && this.#hasRules && nativeKernels() !== undefined ? tensors : null;
  }

  async fetch(index: SliceIndices, options: TransferOptions): Promise<Tensor> {
    const inputs = this.#inputs.map((input) => input.open());
    return await mergedSlice(this.#mergedFrom(inputs), index, options, async (first, values) => {
      await this.#fillYielding(inputs, first, values, options.signal);
    });
  }

  #mergedFrom(inputs: readonly OpenRows[]): MergedTensor {
    return { ...this.#merged, findNonFinite: () => this.#findNonFinite(inputs) };
  }

  *#findNonFinite(inputs: readonly OpenRows[]): Work<NonFiniteInput | undefined> {
    const rows = this.#memoryFor(inputs);
    for (const { begin, end } of this.#blocks(0, this.#rows)) {
      const read = yield* this.#read(inputs, begin, end, rows);
      const found = read.findIndex((values) => !areFinite(values));
      if (found !== -1) return this.#nameOf(found);
      yield;
    }
    return undefined;
  }

  async #fillYielding(
    inputs: readonly OpenRows[],
    first: number,
    values: Float64Array,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const kernel = this.#kernel ?? (await this.#surveyOnce(inputs, signal));
    await runAsync(this.#fill(kernel, inputs, first, values), signal);
  }

  #surveyHere(inputs: readonly OpenRows[]): Kernel {
    this.#kernel ??= runSync(this.#survey(inputs));
    return this.#kernel;
  }

  /** Once for all calls, and again after a failure. */
  async #surveyOnce(inputs: readonly OpenRows[], signal: AbortSignal | undefined): Promise<Kernel> {
    if (this.#surveyed === undefined || this.#surveyed.isAbandoned) {
      this.#surveyed = new SharedCall(async (shared) => {
        const kernel = await runAsync(this.#survey(inputs), shared);
        this.#kernel = kernel;
        return kernel;
      });
    }
    return await this.#surveyed.wait(signal);
  }

  *#survey(inputs: readonly OpenRows[]): Work<Kernel> {
    const kernel = this.#makeKernel();
    const { survey } = kernel;
    if (survey === undefined) return kernel;
    const { columns } = this.#merged;
    const tensors = this.#storedTensors(inputs);
    while (tensors !== null && !survey.isDone) {
      survey.begin();
      yield* surveyElements(survey.ofElements, tensors, this.#rows * columns);
      survey.end();
    }
    const rows = survey.isDone ? [] : this.#memoryFor(inputs);
    for (const { first, count } of surveyedRows(survey, this.#rows, columns)) {
      for (const { begin, end } of this.#blocks(first, first + count)) {
        const values = yield* this.#read(inputs, begin, end, rows);
        survey.count(values, begin * columns);
      }
      yield;
    }
    return kernel;
  }

  *#fill(
    kernel: Kernel,
    inputs: readonly OpenRows[],
    first: number,
    values: Float64Array,
  ): Work<void> {
    const { columns } = this.#merged;
    const rows = this.#memoryFor(inputs);
    for (const { begin, end } of this.#blocks(first, first + values.length / columns)) {
      const read = yield* this.#read(inputs, begin, end, rows);
      const output = values.subarray((begin - first) * columns, (end - first) * columns);
      kernel.combine(read, begin * columns, output);
    }
    yield;
  }

  /** Rows that are merged at once: their values stay in the cache. */
  get #rowsOfBlock(): number {
    const { columns } = this.#merged;
    return Math.min(this.#rows, Math.max(1, Math.floor(BLOCK_LENGTH / Math.max(columns, 1))));
  }

  #blocks(first: number, last: number): Iterable<ByteRange> {
    return cut(first, last, this.#rowsOfBlock);
  }

  #memoryFor(inputs: readonly OpenRows[]): InputRows {
    return inputs.map(() => new Float64Array(this.#rowsOfBlock * this.#merged.columns));
  }

  *#read(
    inputs: readonly OpenRows[],
    first: number,
    last: number,
    memory: InputRows,
  ): Work<InputRows> {
    const length = (last - first) * this.#merged.columns;
    const rows = memory.map((values) => values.subarray(0, length));
    yield* readTogether(inputs, first, rows);
    return rows;
  }
}

function rulesOf({ rules }: Kernel): Float64Array {
  return (rules as () => Float64Array)();
}
