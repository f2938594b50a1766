/** One tensor: header info, and bytes that are read on first use. */

import {
  argumentRangeError,
  requireBoolean,
  requireOptions,
  requireString,
} from '../errors/arguments.js';
import { SafetensorsError } from '../errors/errors.js';
import { hintPythonMethods, PYTHON_TENSOR_METHODS } from '../errors/python-methods.js';
import { uncloneable } from '../errors/uncloneable.js';
import { DTYPE_NAMES, DTYPES, type Dtype, type TensorData } from '../header/dtype.js';
import { dtypeOfOtherName } from '../header/dtype-names.js';
import type { Header } from '../header/header.js';
import { elementCountOf } from '../header/tensor-spec.js';
import { type ByteRange, cut } from '../work/byte-ranges.js';
import { CHUNKS_OPTIONS, type ChunksOptions, chunkByteLength } from './chunks.js';
import {
  CONVERT_ASYNC_OPTIONS,
  CONVERT_VALUES_OPTIONS,
  type ConvertAsyncOptions,
  type ConvertOptions,
  convertOnPoolInWindows,
} from './conversion.js';
import { copyFrom, copyFromYielding, gatherFrom } from './copies.js';
import {
  FLOAT_ROWS_ASYNC_OPTIONS,
  FLOAT_ROWS_OPTIONS,
  type FloatRows,
  type FloatRowsAsyncOptions,
  type FloatRowsOptions,
  fillFloats,
  fillFloatsYielding,
  floatRowsOf,
  ROW_BLOCKS_OPTIONS,
  type RowBlock,
  type RowBlocksOptions,
  rowBlocksOf,
} from './float-rows.js';
import { requireInto } from './float32/kernels.js';
import { INSPECT, type Inspect, showInfo } from './inspection.js';
import type { RowIndices } from './rows.js';
import { planSlice, type SliceIndices } from './slice.js';
import { MemoryStorage } from './storage/memory.js';
import type { Storage } from './storage/storage.js';
import { StorageRange } from './storage-range.js';
import {
  fillNow,
  fillYielding,
  type RowTable,
  TAKE_ASYNC_OPTIONS,
  TAKE_OPTIONS,
  type TakeAsyncOptions,
  type TakeOptions,
  takeBytes,
  takeFloats,
} from './take.js';
import {
  requireViewType,
  VIEW_OPTIONS,
  type ViewConstructor,
  type ViewOptions,
} from './view-types.js';

/**
 * A tensor: of one dtype, as `Tensor<'BF16'>`; by default of any, a union in which `dtype` tells what `data` is.
 *
 * @example
 * ```ts
 * function sum(tensor: Tensor): number | bigint {
 *   let total = 0;
 *   if (tensor.dtype === 'F32') for (const value of tensor.data) total += value; // numbers
 *   if (tensor.dtype === 'I64') return tensor.data.reduce((a, b) => a + b, 0n); // bigints
 *   return total;
 * }
 * console.log(sum(safeOpen('model.safetensors').getTensor('norm.weight'))); // → 0
 * ```
 */
export type Tensor<D extends Dtype = Dtype> = { [One in D]: TensorOf<One> }[D];

const UNCLONEABLE = uncloneable(
  'A Tensor',
  'post copy().bytes and shape, or the path, and open that there',
);

/**
 * A tensor of one dtype, of an open file or of parsed bytes; or a slice of one.
 *
 * Bytes are first read by `buffer`, `bytes`, `data`, `view`, `toFloat32`, `take`, `copy`, `chunks` or a slice
 * that has to be gathered. These throw `SAFETENSORS_FILE_CHANGED` when the file changed,
 * and `SAFETENSORS_FILE_CLOSED` when it was closed with `detach`. After `close()` a tensor goes on
 * working, used before or not; memory that was exposed stays valid for as long as it is referenced. Views of a
 * file that was truncated read as zeros; copies (`copy`, `take`, `toFloat32`, gathered slices) are checked
 * and throw instead.
 *
 * Writing to the memory of a mapped tensor changes private copies of its pages, never the file. Every
 * view of the same tensor sees the change.
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * const tensor = file.getTensor('embed.weight');
 * console.log(tensor.dtype, tensor.shape, tensor.byteLength); // → BF16 [ 8, 4 ] 64
 * console.log(tensor.data.subarray(0, 3)); // → Uint16Array(3) [ 0, 16000, 16128 ]
 * console.log(tensor.toFloat32().subarray(0, 3)); // → Float32Array(3) [ 0, 0.25, 0.5 ]
 * ```
 */
export class TensorOf<D extends Dtype> {
  static {
    // biome-ignore lint/complexity/noThisInStatic: the compiler binds the name of this class after the block.
    hintPythonMethods({ name: 'Tensor', prototype: this.prototype }, PYTHON_TENSOR_METHODS);
  }

  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  /** Name in the file; a slice keeps its tensor's name. */
  readonly name: string;
  /** Dtype, as spelled in the header. */
  readonly dtype: D;
  /** Number of elements: the product of the shape. */
  readonly elementCount: number;
  /** Length in bytes. */
  readonly byteLength: number;
  readonly #source: StorageRange;
  readonly #offset: number;
  readonly #header: Header | undefined;
  /** The shape, or the header entry to read it from on first use. */
  #shape: readonly number[] | number;
  #data: TensorData<D> | undefined;

  private constructor(
    name: string,
    dtype: D,
    elementCount: number,
    shape: readonly number[] | number,
    source: StorageRange,
    offset: number,
    header?: Header,
  ) {
    this.name = name;
    this.dtype = dtype;
    this.elementCount = elementCount;
    this.byteLength = (elementCount * DTYPES[dtype].bits) / 8;
    this.#shape = shape;
    this.#source = source;
    this.#offset = offset;
    this.#header = header;
  }

  /** @internal The tensor begins `offset` bytes into its source. */
  static of(
    name: string,
    dtype: Dtype,
    shape: readonly number[],
    source: StorageRange,
    offset = 0,
  ): Tensor {
    Object.freeze(shape);
    return new TensorOf(name, dtype, elementCountOf(shape), shape, source, offset) as Tensor;
  }

  /** @internal A tensor over these bytes, which no other tensor has. */
  static ofBytes(
    name: string,
    dtype: Dtype,
    shape: readonly number[],
    bytes: Uint8Array<ArrayBuffer>,
    { maxBufferByteLength, path }: Pick<Storage, 'maxBufferByteLength' | 'path'>,
  ): Tensor {
    const storage = new MemoryStorage(bytes, maxBufferByteLength, path);
    return TensorOf.of(name, dtype, shape, new StorageRange(storage, name, 0, bytes.length));
  }

  /** @internal The same tensor, without memory that this one has or gets. */
  static again(tensor: Tensor): Tensor {
    const { name, dtype, elementCount, shape } = tensor;
    const source = tensor.#source.again();
    return new TensorOf(name, dtype, elementCount, shape, source, tensor.#offset) as Tensor;
  }

  /** @internal The tensor of a header entry; it covers the whole source. Its shape is read on first use. */
  static ofEntry(header: Header, entry: number, name: string, source: StorageRange): Tensor {
    const dtype = header.dtype(entry);
    const elementCount = (source.byteLength * 8) / DTYPES[dtype].bits;
    return new TensorOf(name, dtype, elementCount, entry, source, 0, header) as Tensor;
  }

  /** Dimensions in elements, outermost first, C order; frozen. Empty for a scalar. */
  get shape(): readonly number[] {
    if (typeof this.#shape === 'number') this.#shape = (this.#header as Header).shape(this.#shape);
    return this.#shape;
  }

  /** The tensor's facts for `JSON.stringify`, without its data. */
  toJSON(): Pick<TensorOf<D>, 'name' | 'dtype' | 'shape' | 'elementCount' | 'byteLength'> {
    const { name, dtype, shape, elementCount, byteLength } = this;
    return { name, dtype, shape, elementCount, byteLength };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showInfo('Tensor', this.toJSON(), depth, options, inspect);
  }

  /** @internal The source of its bytes. */
  static sourceOf(tensor: Tensor): StorageRange {
    return tensor.#source;
  }

  /** @internal Position of the tensor in its source, in bytes. */
  static offsetOf(tensor: Tensor): number {
    return tensor.#offset;
  }

  /** @internal As `copy`, between other events. */
  static async copyYielding(tensor: Tensor, signal: AbortSignal | undefined): Promise<Tensor> {
    const { name, dtype, shape, byteLength } = tensor;
    const rowByteLength = ((shape.at(-1) ?? 1) * DTYPES[dtype].bits) / 8;
    const length = { byteLength, rowByteLength: Math.ceil(rowByteLength) };
    const bytes = await copyFromYielding(tensor.#source, tensor.#offset, length, signal);
    return TensorOf.ofBytes(name, dtype, shape, bytes, tensor.#source);
  }

  /**
   * The buffer that holds the tensor: its own for a tensor of a file, the caller's memory after
   * `parse`, the whole tensor's for a contiguous slice. Use it with `byteOffset` and `byteLength`.
   * The same object on every call.
   *
   * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE` above the runtime's limit (4 GiB on
   *   Node 20); `chunks()` has no limit; `SAFETENSORS_OUT_OF_MEMORY` for bytes that must be read or gathered
   */
  get buffer(): ArrayBuffer {
    return this.#source.resolve().buffer;
  }

  /** Position of the tensor in `buffer`, in bytes. */
  get byteOffset(): number {
    return this.#source.resolve().byteOffset + this.#offset;
  }

  /**
   * Exactly the tensor's bytes, little endian, C order. A view, never a copy: posted to a worker, it takes
   * all of `buffer` along; post those of a {@link copy}.
   */
  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.buffer, this.byteOffset, this.byteLength);
  }

  /**
   * The elements' bit patterns as the typed array of the dtype: Uint16Array for F16 and BF16,
   * Uint8Array for BOOL, F8 and the packed sub-byte dtypes, a Float32Array with two items per
   * element for C64, else the array of the same name. The same object on every call. To post it, take
   * that of a {@link copy}.
   *
   * For a tensor of a file it is a view at any address. It is a copy only when the tensor is misaligned
   * in memory given to `parse` (see `isAligned`).
   */
  get data(): TensorData<D> {
    // The typed array of a detached buffer has no length.
    if (this.#data === undefined || this.#data.byteLength !== this.byteLength) {
      this.#data = this.#viewAs(DTYPES[this.dtype].data as ViewConstructor<TensorData<D>>);
    }
    return this.#data;
  }

  /**
   * Returns this tensor, typed with its dtype and the array of `data`.
   *
   * @throws SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` when it has another dtype
   *
   * @example
   * ```ts
   * const norm = safeOpen('model.safetensors').getTensor('norm.weight').expectDtype('F32');
   * console.log(norm.data.reduce((sum, value) => sum + value, 0)); // → 0
   * ```
   */
  expectDtype<Expected extends Dtype>(dtype: Expected): Tensor<Expected> {
    requireString('dtype', dtype);
    if (!Object.hasOwn(DTYPES, dtype)) {
      const meant = dtypeOfOtherName(dtype);
      const expected = meant === undefined ? `one of ${DTYPE_NAMES.join(', ')}` : `'${meant}'`;
      throw argumentRangeError('dtype', expected, dtype);
    }
    if (hasDtype(this, dtype)) return this;
    const message = `expected dtype ${dtype}, found ${this.dtype}`;
    throw new SafetensorsError('SAFETENSORS_DTYPE_MISMATCH', message, this.#source.context);
  }

  /**
   * The same memory as another typed array: integers as wide as the elements, which show their bits,
   * or the array of the very numbers, such as `tensor.view(Float16Array)` for F16 where the runtime
   * has it. `docs/internals/dtypes.md` lists them; `reinterpret` allows all others. A view; a copy where
   * `byteOffset` is not a multiple of the item's size, as can happen after `parse` and in slices.
   *
   * @throws SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` for an array that cannot show the dtype
   * @throws RangeError `ERR_OUT_OF_RANGE` when the byte length is not a multiple of the item's
   *
   * @example
   * ```ts
   * const embed = safeOpen('model.safetensors').getTensor('embed.weight'); // BF16
   * console.log(embed.view(Int16Array).subarray(0, 3)); // → Int16Array(3) [ 0, 16000, 16128 ]
   * console.log(embed.view(Uint32Array, { reinterpret: true }).length); // → 16
   * ```
   */
  view<View>(type: ViewConstructor<View>, options: ViewOptions = {}): View {
    requireOptions(options, VIEW_OPTIONS);
    const { reinterpret = false } = options;
    requireBoolean('reinterpret', reinterpret);
    requireViewType(type, this.dtype, reinterpret, this.#source.context);
    if (this.byteLength % type.BYTES_PER_ELEMENT !== 0) {
      const expected = `one whose items divide ${this.byteLength} bytes`;
      throw argumentRangeError('type', expected, type.name);
    }
    return this.#viewAs(type);
  }

  /**
   * Whether the tensor's address is a multiple of its item's size. A misaligned tensor works too on
   * x64 and arm64, except for `Atomics` on arm64.
   */
  get isAligned(): boolean {
    const itemLength = DTYPES[this.dtype].data.BYTES_PER_ELEMENT;
    // Slices begin at whole elements: the source decides.
    return this.#source.address % itemLength === 0;
  }

  /**
   * The values of all rows, or of some, as a Float32Array: a copy, rounded to nearest even where float32 cannot hold a
   * value. C64 gives real and imaginary parts, alternating. `docs/internals/dtypes.md` lists the results of overflow
   * and NaN for every dtype. Reusing an array by `into` is several times as fast as a new one, for which the system has
   * to provide memory first.
   *
   * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`
   * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for an unusable `into`
   *
   * @example
   * ```ts
   * const tensor = safeOpen('model.safetensors').getTensor('embed.weight');
   * const into = new Float32Array(tensor.elementCount); // for one tensor after another
   * console.log(tensor.toFloat32({ into }).at(-1)); // → 7.75
   * ```
   */
  toFloat32<Into extends Float32Array = Float32Array<ArrayBuffer>>(
    options: FloatRowsOptions<Into> = {},
  ): Into {
    requireOptions(options, FLOAT_ROWS_OPTIONS);
    const { into, rows } = options;
    const elements = this.#floatRows(rows);
    const output =
      into === undefined
        ? this.#source.allocateFloats(elements.valueCount)
        : requireInto(into, elements.valueCount);
    fillFloats(elements, output);
    return into ?? (output as Into);
  }

  /**
   * As `toFloat32`, on two threads of the pool: the event loop goes on, even while pages come from
   * the disk. Don't read or write `into` before the promise settles; transferring or resizing it only
   * makes the promise reject.
   *
   * A new array, or one over a SharedArrayBuffer, is fastest. Any other `into`, and the bytes of
   * `parse` and of `storage: 'read'`, are copied in small windows between other events.
   *
   * Rejects with the errors of `toFloat32`; with the signal's reason within milliseconds of an abort; with
   * `SAFETENSORS_FILE_CHANGED` when the file changes meanwhile; and with `SAFETENSORS_FILE_CLOSED` when it is closed
   * with `detach`; a plain `close()` does not matter. The content of `into` is undefined then, and no thread writes
   * to it any more.
   *
   * @example
   * ```ts
   * const tensor = safeOpen('model.safetensors').getTensor('embed.weight');
   * const values = await tensor.toFloat32Async({ signal: AbortSignal.timeout(60_000) });
   * console.log(values.at(-1)); // → 7.75
   * ```
   */
  async toFloat32Async<Into extends Float32Array = Float32Array<ArrayBuffer>>(
    options: FloatRowsAsyncOptions<Into> = {},
  ): Promise<Into> {
    requireOptions(options, FLOAT_ROWS_ASYNC_OPTIONS);
    const { rows, ...others } = options;
    const elements = this.#floatRows(rows);
    if (!this.#source.isComputed) {
      return (await convertOnPoolInWindows(elements, elements.valueCount, others)) as Into;
    }
    const { into } = options;
    const output =
      into === undefined
        ? this.#source.allocateFloats(elements.valueCount)
        : requireInto(into, elements.valueCount);
    await fillFloatsYielding(elements, output, others);
    return into ?? (output as Into);
  }

  #floatRows(rows: unknown): FloatRows {
    const elements = { dtype: this.dtype, source: this.#source, byteOffset: this.#offset };
    return floatRowsOf(elements, this.shape, rows);
  }

  /**
   * The values as float32 in blocks of rows, for tensors of any size: each block is converted, or computed, when its
   * turn comes.
   *
   * @throws RangeError `ERR_OUT_OF_RANGE`; as {@link toFloat32Async}
   *
   * @example
   * ```ts
   * const tensor = safeOpen('model.safetensors').getTensor('embed.weight');
   * for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 100 })) {
   *   console.log(row, values.length);
   * }
   * // → 0 24
   * // → 6 8
   * ```
   */
  rowBlocks(options: RowBlocksOptions = {}): AsyncGenerator<RowBlock, void, void> {
    requireOptions(options, ROW_BLOCKS_OPTIONS);
    return this.#rowBlocks(rowBlocksOf(this.shape, this.dtype, options), options.signal);
  }

  async *#rowBlocks(
    blocks: Iterable<ByteRange>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<RowBlock, void, void> {
    for (const { begin, end } of blocks) {
      yield { row: begin, values: await this.toFloat32Async({ rows: [begin, end], signal }) };
    }
  }

  /**
   * A part of the tensor, by numpy's rules for basic indexing (see {@link SliceIndex}): one argument
   * per dimension, or one text in numpy's notation, such as `'-1, ::2'`; dimensions without an index are taken
   * whole. A contiguous result shares the tensor's
   * memory, and takes all of it along when it is posted to a worker: post a {@link copy}. (With
   * `storage: 'read'` it reads only its own bytes, unless the whole tensor was read
   * before.) Any other result is gathered into a separate buffer at once.
   *
   * @throws SafetensorsError `SAFETENSORS_SLICE_OUT_OF_RANGE`, `SAFETENSORS_TOO_MANY_INDICES`, or
   *   `SAFETENSORS_MISALIGNED_SLICE` when a packed sub-byte dtype would be cut within a byte
   *
   * @example
   * ```ts
   * const tensor = safeOpen('model.safetensors').getTensor('embed.weight');
   * console.log(tensor.slice([2, 4]).shape); // → [ 2, 4 ]
   * console.log(tensor.slice(-1, [null, null, 2]).toFloat32()); // → Float32Array(2) [ 7, 7.5 ]
   * console.log(tensor.slice('-1, ::2').toFloat32()); // → Float32Array(2) [ 7, 7.5 ]
   * ```
   */
  slice<Self extends TensorOf<Dtype>>(this: Self, ...index: SliceIndices): Self;
  slice(...index: SliceIndices): TensorOf<D> {
    const plan = planSlice(this.shape, index, DTYPES[this.dtype].bits, this.#source.context);
    const offset = this.#offset + plan.byteOffset;
    if (!plan.contiguous || plan.byteLength === 0) {
      return this.#over(gatherFrom(this.#source, this.#offset, plan), plan.shape);
    }
    if (this.#source.isShareable) {
      return TensorOf.of(this.name, this.dtype, plan.shape, this.#source, offset) as TensorOf<D>;
    }
    const source = this.#source.part(offset, plan.byteLength);
    return TensorOf.of(this.name, this.dtype, plan.shape, source) as TensorOf<D>;
  }

  /**
   * Copies the tensor to separate memory: `copy().buffer` has exactly its bytes, independent of the file and of
   * other tensors. It can be posted or transferred to another thread. Posting a view, such as
   * `slice(42).bytes`, makes Node copy the whole tensor.
   *
   * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`
   *
   * @example
   * ```ts
   * const { port1, port2 } = new MessageChannel();
   * port2.once('message', (data) => console.log(data)); // → Uint16Array(4) [ 16384, 16400, 16416, 16432 ]
   * const row = safeOpen('model.safetensors').getTensor('embed.weight').slice(2).copy();
   * port1.postMessage(row.data, [row.buffer]); // moves 8 bytes
   * port1.close();
   * ```
   */
  copy<Self extends TensorOf<Dtype>>(this: Self): Self;
  copy(): TensorOf<D> {
    return this.#over(copyFrom(this.#source, this.#offset, this.byteLength), this.shape);
  }

  /**
   * Rows along dimension 0, in the order of the indices and as often as they occur, as `numpy.take`
   * gives them: a tensor of shape [n, ...] with separate memory, or over that of `into`. All indices
   * are checked before anything is written. One call takes a fraction of the time of slices in a loop.
   *
   * From a mapped file, rows are read by position, as long as `data`, `bytes` or `buffer`
   * of the tensor or of a slice of it was not used: these let you write to the mapping, and then rows come from there.
   *
   * @throws SafetensorsError `SAFETENSORS_SLICE_OUT_OF_RANGE`, `SAFETENSORS_TOO_MANY_INDICES` for a scalar,
   *   `SAFETENSORS_MISALIGNED_SLICE` when rows of a packed sub-byte dtype do not end on a byte
   * @throws TypeError `ERR_INVALID_ARG_TYPE` unless the indices are integers; see `into` for others
   *
   * @example
   * ```ts
   * const table = safeOpen('model.safetensors').getTensor('embed.weight');
   * const rows = table.take(BigInt64Array.of(7n, 0n, -1n));
   * console.log(rows.shape, rows.slice(0).data); // → [ 3, 4 ] Uint16Array(4) [ 16608, 16616, 16624, 16632 ]
   * ```
   */
  take<Self extends TensorOf<Dtype>>(this: Self, indices: RowIndices, options?: TakeOptions): Self;
  take(indices: RowIndices, options: TakeOptions = {}): TensorOf<D> {
    requireOptions(options, TAKE_OPTIONS);
    const taking = takeBytes(this.#table, indices, options.into);
    fillNow(taking);
    return this.#over(taking.output, taking.plan.shape);
  }

  /**
   * As `take`, between other events. A thread of the pool reads the rows before, many at once: cold rows come many
   * times as fast as one after the other. (With `storage: 'read'`, rows of
   * a tensor that was not read yet are read between other events instead.) Don't use `into` before the
   * promise settles. Rejects with the signal's reason when it is aborted.
   *
   * @example
   * ```ts
   * const table = safeOpen('model.safetensors').getTensor('embed.weight');
   * const rows = await table.takeAsync([7, 0], { signal: AbortSignal.timeout(60_000) });
   * console.log(rows.dtype, rows.shape); // → BF16 [ 2, 4 ]
   * ```
   */
  takeAsync<Self extends TensorOf<Dtype>>(
    this: Self,
    indices: RowIndices,
    options?: TakeAsyncOptions,
  ): Promise<Self>;
  async takeAsync(indices: RowIndices, options: TakeAsyncOptions = {}): Promise<TensorOf<D>> {
    requireOptions(options, TAKE_ASYNC_OPTIONS);
    const taking = takeBytes(this.#table, indices, options.into);
    await fillYielding(taking, options.signal);
    return this.#over(taking.output, taking.plan.shape);
  }

  /**
   * The values of the rows that `take` gives, as {@link toFloat32} converts them, one row after the
   * other: what an embedding lookup needs. With `into` no memory is taken, whatever the number of
   * rows.
   *
   * @example
   * ```ts
   * const table = safeOpen('model.safetensors').getTensor('embed.weight');
   * const into = new Float32Array(2 * 4); // for one text after another
   * console.log(table.takeFloat32([1, -1], { into }).subarray(3, 6)); // → Float32Array(3) [ 1.75, 7, 7.25 ]
   * ```
   */
  takeFloat32<Into extends Float32Array = Float32Array<ArrayBuffer>>(
    indices: RowIndices,
    options: ConvertOptions<Into> = {},
  ): Into {
    requireOptions(options, CONVERT_VALUES_OPTIONS);
    const taking = takeFloats(this.#table, indices, options.into);
    fillNow(taking);
    return options.into ?? (taking.output as Into);
  }

  /**
   * As `takeFloat32`, in the way of {@link takeAsync}.
   *
   * @example
   * ```ts
   * const table = safeOpen('model.safetensors').getTensor('embed.weight');
   * console.log(await table.takeFloat32Async([7])); // → Float32Array(4) [ 7, 7.25, 7.5, 7.75 ]
   * ```
   */
  async takeFloat32Async<Into extends Float32Array = Float32Array<ArrayBuffer>>(
    indices: RowIndices,
    options: ConvertAsyncOptions<Into> = {},
  ): Promise<Into> {
    requireOptions(options, CONVERT_ASYNC_OPTIONS);
    const taking = takeFloats(this.#table, indices, options.into);
    await fillYielding(taking, options.signal);
    return options.into ?? (taking.output as Into);
  }

  /**
   * The tensor's bytes in pieces, in order, for tensors of any size. Cuts on whole rows of dimension 0
   * where a row fits into `maxByteLength`, else on whole elements at byte boundaries.
   *
   * With a mapped file each piece is a view; with `storage: 'read'` it is read when its turn comes. A
   * tensor without bytes gives no pieces.
   *
   * @throws RangeError `ERR_OUT_OF_RANGE` when not even one element fits
   *
   * @example
   * ```ts
   * const tensor = safeOpen('model.safetensors').getTensor('embed.weight');
   * for (const chunk of tensor.chunks({ maxByteLength: 30 })) console.log(chunk.length);
   * // → 24
   * // → 24
   * // → 16
   * ```
   */
  *chunks(options: ChunksOptions = {}): Generator<Uint8Array<ArrayBuffer>, void, void> {
    requireOptions(options, CHUNKS_OPTIONS);
    const length = chunkByteLength(this, this.#source.maxBufferByteLength, options.maxByteLength);
    for (const { begin, end } of cut(0, this.byteLength, length)) {
      yield this.#source.window(this.#offset + begin, this.#offset + end);
    }
  }

  get #table(): RowTable {
    const { dtype, shape, byteLength } = this;
    return { dtype, shape, byteLength, source: this.#source, byteOffset: this.#offset };
  }

  #viewAs<View>(type: ViewConstructor<View>): View {
    const itemLength = type.BYTES_PER_ELEMENT;
    const length = this.byteLength / itemLength;
    // The offset in the buffer decides, not the address: engines check only the offset.
    if (this.byteOffset % itemLength === 0) {
      return new type(this.buffer, this.byteOffset, length);
    }
    return new type(this.bytes.slice().buffer, 0, length);
  }

  /** Returns a tensor with the same name and dtype over other bytes and another shape. */
  #over(bytes: Uint8Array<ArrayBuffer>, shape: readonly number[]): TensorOf<D> {
    return TensorOf.ofBytes(this.name, this.dtype, shape, bytes, this.#source) as TensorOf<D>;
  }
}

function hasDtype<D extends Dtype>(tensor: TensorOf<Dtype>, dtype: D): tensor is TensorOf<D> {
  return tensor.dtype === dtype;
}
