/** The values of a logical tensor: rows that are computed from stored tensors. */

import type { ErrorContext } from '../errors/errors.js';
import { elementCountOf, matrixOf } from '../header/tensor-spec.js';
import type { Transfer } from '../work/transfer.js';
import { runAsync, runSync, type Work } from '../work/work.js';
import type { LogicalPlan } from './plan/logical-plan.js';
import { openDecoder } from './tiles/open.js';
import type { Decoder, TensorReader } from './tiles/reading.js';

/** Where the stored tensors of a logical one are read. */
export interface LogicalReader extends TensorReader {
  /** The file or index, for errors. */
  readonly path: string | undefined;
  /** Work that reads these tensors, with errors that name the file, and a check that no file has changed. */
  verified<Result>(names: Iterable<string>, work: Work<Result>): Work<Result>;
}

/**
 * Computes rows as float32, bit for bit as the reference of the scheme does. Scales, and the packed tensors of GPTQ and
 * AWQ, are read for the first rows and retained.
 */
export class LogicalTensor {
  readonly name: string;
  /** The logical dimensions, outermost first. */
  readonly shape: readonly number[];
  readonly elementCount: number;
  readonly #plan: LogicalPlan;
  readonly #names: readonly string[];
  readonly #reader: LogicalReader;
  #decoder: Decoder | undefined;

  /** `names` are those of the stored tensors. */
  constructor(plan: LogicalPlan, names: readonly string[], reader: LogicalReader) {
    this.name = plan.name;
    this.shape = plan.shape;
    this.elementCount = elementCountOf(plan.shape);
    this.#plan = plan;
    this.#names = names;
    this.#reader = reader;
  }

  /** The file and the tensor, for errors. */
  get context(): ErrorContext {
    return { path: this.#reader.path, tensor: this.name };
  }

  /** Values of a row. */
  get columns(): number {
    return matrixOf(this.shape).columns;
  }

  /** Fills `output` with the rows from `first` on; every one must fit. Only for readers that answer at once. */
  fillNow(first: number, output: Float32Array): void {
    runSync(this.#fill(first, output));
  }

  /** As above, between other events. Counts bytes of values in `transfer`. */
  async fill(
    first: number,
    output: Float32Array,
    signal: AbortSignal | undefined,
    transfer?: Transfer,
  ): Promise<void> {
    await runAsync(this.#fill(first, output, transfer), signal);
  }

  #fill(first: number, output: Float32Array, transfer?: Transfer): Work<void> {
    return this.#reader.verified(this.#names, this.#decode(first, output, transfer));
  }

  *#decode(first: number, output: Float32Array, transfer: Transfer | undefined): Work<void> {
    if (output.length === 0) return;
    const { columns } = this;
    this.#decoder ??= yield* openDecoder(this.#plan, this.#reader);
    const last = first + output.length / columns;
    yield* this.#decoder.decode(first, last, (begin, end, fill) => {
      const values = output.subarray((begin - first) * columns, (end - first) * columns);
      fill(values);
      transfer?.advance(values.byteLength);
    });
  }
}
