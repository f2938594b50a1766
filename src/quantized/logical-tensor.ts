/** A logical tensor: info from the plan, and values computed on request. */

import {
  argumentRangeError,
  requireInteger,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { uncloneable } from '../errors/uncloneable.js';
import { cast, requireInto } from '../tensor/float32/kernels.js';
import { INSPECT, type Inspect, showFacts } from '../tensor/inspection.js';
import { planRows, type RowIndices } from '../tensor/rows.js';
import {
  planSlice,
  type SliceIndex,
  type SliceIndices,
  type SlicePlan,
  splitOptions,
} from '../tensor/slice.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { Transfer } from '../work/transfer.js';
import { runAsync, runSync, type Work } from '../work/work.js';
import type { LogicalInfo } from './info.js';
import { type FillRows, fillRows, fillSlice, type ReadRows, readBlocks } from './parts.js';
import { type LogicalPlan, matrixOf, type StoredTensor } from './plan/logical-plan.js';
import {
  ASYNC_OPTIONS,
  BLOCKS_OPTIONS,
  type DequantizeCastOptions,
  type DequantizedData,
  type DequantizedDtype,
  type DequantizePartOptions,
  type DequantizeRowsAsyncOptions,
  type DequantizeRowsOptions,
  PART_OPTIONS,
  ROWS_OPTIONS,
  type RowBlock,
  type RowBlocksOptions,
  requireHalves,
  requireRows,
} from './row-options.js';
import type { StoredTensors } from './source.js';
import { openDecoder } from './tiles/open.js';
import type { Decoder } from './tiles/reading.js';

const DEFAULT_BLOCK_BYTE_LENGTH = 2 ** 24;

/** Longest result: what engines of today allow an array of float32. */
const MAX_VALUES = 2 ** 32 - 1;

const UNCLONEABLE = uncloneable('A LogicalTensor', 'post its values');

/** Writes the rows of a decoder somewhere. Returns how many values were too large. */
interface Target {
  readonly rowByteLength: number;
  write(at: number, count: number, fill: (into: Float32Array) => void): number;
}

/**
 * A tensor as the model means it, made by `DequantizedCheckpoint.getTensor`. Every call reads and computes anew; scales,
 * and the packed tensors of GPTQ and AWQ, are read by the first one and kept.
 *
 * @example
 * ```ts
 * const model = await dequantize(safeOpen('quantized'));
 * const tensor = model.getTensor('up_proj.weight');
 * console.log(tensor.shape, tensor.toFloat32().subarray(0, 3)); // → [ 4, 8 ] Float32Array(3) [ 0, 0.25, 0.5 ]
 * ```
 */
export class LogicalTensor {
  /** @internal */
  readonly uncloneable: symbol = UNCLONEABLE;
  /** The logical name. */
  readonly name: string;
  /** The logical dimensions, outermost first; frozen. */
  readonly shape: readonly number[];
  /** Number of values: the product of the shape. */
  readonly elementCount: number;
  /** How it is stored. */
  readonly info: LogicalInfo;
  readonly #plan: LogicalPlan | StoredTensor;
  readonly #stored: StoredTensors;
  #decoder: Decoder | undefined;

  private constructor(plan: LogicalPlan | StoredTensor, info: LogicalInfo, stored: StoredTensors) {
    const { rows, columns } = matrixOf(plan.shape);
    this.name = plan.name;
    this.shape = info.shape;
    this.elementCount = rows * columns;
    this.info = info;
    this.#plan = plan;
    this.#stored = stored;
  }

  /** @internal */
  static of(
    plan: LogicalPlan | StoredTensor,
    info: LogicalInfo,
    stored: StoredTensors,
  ): LogicalTensor {
    return new LogicalTensor(plan, info, stored);
  }

  /**
   * The handle's own tensor, without a copy, when it is not quantized; null for a quantized or a remote one.
   *
   * @throws As `getTensor` of the handle
   */
  get tensor(): Tensor | null {
    const isOwn = this.info.scheme === null && !this.#stored.isRemote;
    return isOwn ? this.#stored.tensor(this.name) : null;
  }

  /**
   * @internal Writes the rows from `first` on, as many as fit, into an array of the caller's: numbers, or bit patterns of
   * BF16 or F16. Returns how many finite values became infinite. For writers, which use one array again and again.
   */
  static async fill(
    tensor: LogicalTensor,
    first: number,
    into: DequantizedData,
    dtype: DequantizedDtype,
    signal: AbortSignal | undefined,
    transfer?: Transfer,
  ): Promise<number> {
    const last = first + into.length / Math.max(tensor.#columns, 1);
    const target =
      dtype === 'F32'
        ? tensor.#floatTarget(first, into as Float32Array)
        : tensor.#castTarget(first, into as Uint16Array, dtype);
    return await runAsync(tensor.#read(first, last, target, transfer), signal);
  }

  /** Number of rows along the last dimension. */
  get rowCount(): number {
    return matrixOf(this.shape).rows;
  }

  /**
   * The values as float32, bit for bit as the reference of the scheme computes them in float32. On this thread; of a
   * remote tensor only {@link toFloat32Async} gives them.
   *
   * @throws QuantizationError for scales, groups or zero points that cannot be right
   * @throws As `Tensor.toFloat32`; TypeError `ERR_INVALID_STATE` for a remote tensor
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const into = new Float32Array(8);
   * model.getTensor('up_proj.weight').toFloat32({ into, rows: [1, 2] });
   * console.log(into.subarray(0, 2)); // → Float32Array(2) [ 0.5, 0.75 ]
   * ```
   */
  toFloat32(options: DequantizeRowsOptions = {}): Float32Array {
    requireOptions(options, ROWS_OPTIONS);
    const [first, last] = requireRows(options.rows, this.rowCount);
    const output = this.#floats(last - first, options.into);
    runSync(this.#read(first, last, this.#floatTarget(first, output)));
    return options.into ?? output;
  }

  /**
   * As `toFloat32`, between other events, and of remote tensors, too: fetches scales, then the codes of these rows.
   * Don't use `into` before the promise settles.
   *
   * @throws As `toFloat32`; `signal.reason`; of a remote tensor as `RemoteCheckpoint.getTensor`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const signal = AbortSignal.timeout(60_000);
   * const values = await model.getTensor('up_proj.weight').toFloat32Async({ signal });
   * console.log(values.length); // → 32
   * ```
   */
  async toFloat32Async(options: DequantizeRowsAsyncOptions = {}): Promise<Float32Array> {
    requireOptions(options, ASYNC_OPTIONS);
    requireSignal(options.signal);
    const [first, last] = requireRows(options.rows, this.rowCount);
    const output = this.#floats(last - first, options.into);
    const transfer = new Transfer(output.byteLength, options);
    await LogicalTensor.fill(this, first, output, 'F32', options.signal, transfer);
    transfer.finish();
    return options.into ?? output;
  }

  /**
   * A part of the tensor by the rules of `Tensor.slice`, as a tensor of float32 in memory of its own. Computes the rows
   * in which the part lies; of a remote tensor it fetches these. Options may follow the index.
   *
   * @throws As `Tensor.slice`, and as `toFloat32Async`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const part = await model.getTensor('up_proj.weight').slice('1:3, ::4');
   * console.log(part.shape, part.data); // → [ 2, 2 ] Float32Array(4) [ 0.5, 1.5, 1, 2 ]
   * ```
   */
  async slice(
    ...args:
      | SliceIndices
      | readonly [...index: SliceIndex[], options: DequantizePartOptions]
      | readonly [text: string, options: DequantizePartOptions]
  ): Promise<Tensor<'F32'>> {
    const [index, options] = splitOptions<DequantizePartOptions>(args);
    const plan = planSlice(this.shape, index, 32, this.#context);
    return await this.#part(plan, options, (fill, output) =>
      fillSlice(plan, this.#columns, fill, output),
    );
  }

  /**
   * Rows along dimension 0 by their positions, in any order, as a tensor of float32 in memory of its own: as
   * `Tensor.take`.
   *
   * @throws As `Tensor.take`, and as `toFloat32Async`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const rows = await model.getTensor('up_proj.weight').take([2, 0]);
   * console.log(rows.shape); // → [ 2, 8 ]
   * ```
   */
  async take(indices: RowIndices, options: DequantizePartOptions = {}): Promise<Tensor<'F32'>> {
    const { shape } = this;
    const plan = planRows({ shape, byteLength: this.elementCount * 4 }, indices, this.#context);
    return await this.#part(plan, options, (fill, output) =>
      fillRows(plan, this.#columns, fill, output),
    );
  }

  async #part(
    { shape, byteLength }: Pick<SlicePlan, 'shape' | 'byteLength'>,
    options: DequantizePartOptions,
    fillPart: (fill: FillRows, output: Float32Array) => Promise<void>,
  ): Promise<Tensor<'F32'>> {
    requireOptions(options, PART_OPTIONS);
    const { signal } = options;
    requireSignal(signal);
    this.#requireLength(byteLength / 4, 4);
    const output = allocate(Float32Array, byteLength / 4, this.#context);
    const fill: FillRows = (first, into) => LogicalTensor.fill(this, first, into, 'F32', signal);
    if (byteLength > 0) await fillPart(fill, output);
    const { path } = this.#stored;
    const limits = { maxBufferByteLength: Number.MAX_SAFE_INTEGER, path };
    return TensorOf.ofBytes(
      this.name,
      'F32',
      shape,
      new Uint8Array(output.buffer),
      limits,
    ) as Tensor<'F32'>;
  }

  /**
   * The values as bit patterns of BF16 or F16: the float32 values, rounded once to nearest, ties to even. Works for
   * remote tensors, too.
   *
   * @throws As `toFloat32Async`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const data = await model.getTensor('up_proj.weight').cast('BF16', { rows: [0, 1] });
   * console.log(data.subarray(0, 3)); // → Uint16Array(3) [ 0, 16000, 16128 ]
   * ```
   */
  async cast(dtype: 'BF16' | 'F16', options: DequantizeCastOptions = {}): Promise<Uint16Array> {
    requireOptions(options, ASYNC_OPTIONS);
    requireSignal(options.signal);
    if (dtype !== 'BF16' && dtype !== 'F16')
      throw argumentRangeError('dtype', "'BF16' or 'F16'", dtype);
    const [first, last] = requireRows(options.rows, this.rowCount);
    const output = this.#halves((last - first) * this.#columns, options.into);
    const transfer = new Transfer(output.byteLength, options);
    await LogicalTensor.fill(this, first, output, dtype, options.signal, transfer);
    transfer.finish();
    return output;
  }

  /**
   * The rows in blocks, for tensors of any size: each block is read when its turn comes.
   *
   * @throws As `toFloat32Async`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * const tensor = model.getTensor('up_proj.weight');
   * for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 100 })) {
   *   console.log(row, values.length);
   * }
   * // → 0 24
   * // → 3 8
   * ```
   */
  rowBlocks(options: RowBlocksOptions = {}): AsyncGenerator<RowBlock, void, void> {
    requireOptions(options, BLOCKS_OPTIONS);
    const { dtype = 'F32', maxByteLength = DEFAULT_BLOCK_BYTE_LENGTH, signal } = options;
    if (dtype !== 'F32' && dtype !== 'BF16' && dtype !== 'F16') {
      throw argumentRangeError('dtype', "'F32', 'BF16' or 'F16'", dtype);
    }
    requireInteger('maxByteLength', maxByteLength, 1, Number.MAX_SAFE_INTEGER);
    requireSignal(signal);
    const [first, last] = requireRows(options.rows, this.rowCount);
    const rowByteLength = Math.max(this.#columns * (dtype === 'F32' ? 4 : 2), 1);
    const read: ReadRows = async (row, count, ends) => {
      const values = dtype === 'F32' ? this.#floats(count) : this.#halves(count * this.#columns);
      return { row, values, overflows: await LogicalTensor.fill(this, row, values, dtype, ends) };
    };
    return readBlocks(read, {
      ...{ first, last: this.elementCount === 0 ? first : last, signal },
      rows: Math.max(1, Math.floor(maxByteLength / rowByteLength)),
      // What is local is computed on this thread: reading ahead would gain nothing.
      isAhead: this.#stored.isRemote,
    });
  }

  /** The facts for `JSON.stringify`, without values. */
  toJSON(): Pick<LogicalTensor, 'name'> & LogicalInfo {
    return { name: this.name, ...this.info };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showFacts('LogicalTensor', this.toJSON(), depth, options, inspect);
  }

  get #context(): ErrorContext {
    return { path: this.#stored.path, tensor: this.name };
  }

  get #columns(): number {
    return matrixOf(this.shape).columns;
  }

  /** A stored tensor of it, to ask whether its file has changed. */
  get #storedName(): string {
    return this.info.storedAs['weight'] as string;
  }

  /** Reads rows into the target; returns how many values were too large. */
  #read(first: number, last: number, target: Target, transfer?: Transfer): Work<number> {
    return this.#stored.verified(this.#storedName, this.#decode(first, last, target, transfer));
  }

  *#decode(first: number, last: number, target: Target, transfer?: Transfer): Work<number> {
    // Dimensions beside a 0 may be very large.
    if (this.elementCount === 0) return 0;
    this.#decoder ??= yield* openDecoder(this.#plan, this.#stored);
    let overflows = 0;
    yield* this.#decoder.decode(first, last, (begin, end, fill) => {
      overflows += target.write(begin, end - begin, fill);
      transfer?.advance((end - begin) * target.rowByteLength);
    });
    return overflows;
  }

  #floatTarget(first: number, output: Float32Array): Target {
    const columns = this.#columns;
    return {
      rowByteLength: columns * 4,
      write: (row, count, fill) => {
        const at = (row - first) * columns;
        fill(output.subarray(at, at + count * columns));
        return 0;
      },
    };
  }

  /** Values go through an array of a tile, since the result has no room for float32. */
  #castTarget(first: number, output: Uint16Array, dtype: 'BF16' | 'F16'): Target {
    const columns = this.#columns;
    let scratch = new Float32Array(0);
    return {
      rowByteLength: columns * 2,
      write: (row, count, fill) => {
        const length = count * columns;
        if (scratch.length < length) scratch = new Float32Array(length);
        const values = scratch.subarray(0, length);
        fill(values);
        const at = (row - first) * columns;
        return cast('F32', dtype, bytesOf(values), bytesOf(output.subarray(at, at + length)));
      },
    };
  }

  #floats(rows: number, into?: Float32Array): Float32Array {
    const count = rows * this.#columns;
    if (into !== undefined) return requireInto(into, count);
    this.#requireLength(count, 4);
    return allocate(Float32Array, count, this.#context);
  }

  #halves(count: number, into?: Uint16Array): Uint16Array {
    if (into === undefined) {
      this.#requireLength(count, 2);
      return allocate(Uint16Array, count, this.#context);
    }
    requireHalves(into, count);
    return into;
  }

  #requireLength(count: number, width: number): void {
    if (count <= MAX_VALUES) return;
    throw new SafetensorsError(
      'SAFETENSORS_TENSOR_TOO_LARGE',
      `${count * width} bytes do not fit into one buffer of this runtime; use rows or rowBlocks()`,
      this.#context,
    );
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
