/** The values of a tensor of any length, window by window. */

import { argumentTypeError } from '../../errors/arguments.js';
import type { Dtype } from '../../header/dtype.js';
import { elementCountOf, tensorByteLength } from '../../header/tensor-spec.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import { Transfer, type TransferOptions } from '../../work/transfer.js';
import { yieldIfDue } from '../../work/yielding.js';
import { boxesOf } from './boxes.js';
import { isByteSized, isConverted, valueNumbers, valueNumbersIn } from './numbers.js';

/** Elements of a window. */
const WINDOW_ELEMENTS = 2 ** 22;

/** Elements to convert at a time for a comparison: the numbers of both tensors stay in a cache of the processor. */
const COMPARED_ELEMENTS = 2 ** 15;

/**
 * A tensor whose parts can be had. A `Tensor` is one; of a remote checkpoint it is `{ dtype, shape, slice: (...index)
 * => checkpoint.getSlice(name, ...index) }`, whose parts are fetched when their turn comes.
 */
export interface SliceableTensor {
  /** As in the header. */
  readonly dtype: Dtype;
  /** Dimensions, outermost first. */
  readonly shape: readonly number[];
  /** A part, by the rules of `Tensor.slice`. */
  slice(...index: SliceIndices): Tensor | Promise<Tensor>;
}

/** Values of tensors at the same places, one array a tensor. */
export interface ValueWindow {
  readonly values: readonly ArrayLike<number>[];
  /** The parts that have them. */
  readonly parts: readonly Tensor[];
}

/** Whether values are rounded to doubles. */
export function isBigInteger({ dtype }: Tensor): boolean {
  return dtype === 'I64' || dtype === 'U64';
}

/**
 * The values of a tensor in the order of its bytes, some millions at a time: views or new arrays, valid until the next.
 * Of C64 real and imaginary parts in turn; integers of 64 bits are rounded. Lets other events run in between.
 *
 * @throws As `slice` of the tensor; `signal.reason`
 *
 * @example
 * ```ts
 * const checkpoint = await open('https://models.example/model.safetensors');
 * const { dtype, shape } = await checkpoint.info('embed.weight');
 * const slice: SliceableTensor['slice'] = (...index) => checkpoint.getSlice('embed.weight', ...index);
 * let sum = 0;
 * for await (const values of tensorValues({ dtype, shape, slice })) {
 *   for (let i = 0; i < values.length; i++) sum += values[i] ?? 0;
 * }
 * console.log(sum); // → 124
 * ```
 */
export function tensorValues(
  tensor: SliceableTensor,
  options: TransferOptions = {},
): AsyncGenerator<ArrayLike<number>, void, void> {
  const windows = decoded(tensor, options, () => void UNREAD.delete(windows));
  UNREAD.set(windows, { tensor, options });
  return windows;
}

/** What `tensorValues` was called with. */
export interface TensorToRead {
  readonly tensor: SliceableTensor;
  readonly options: TransferOptions;
}

/** Windows of which none has been requested: their tensor may be read instead. */
const UNREAD = new WeakMap<object, TensorToRead>();

/**
 * Returns the tensor whose values windows have, while none has been requested; undefined for other windows.
 *
 * @throws TypeError as `tensorValues`
 */
export function unreadTensor(windows: unknown): TensorToRead | undefined {
  const unread = UNREAD.get(Object(windows));
  if (unread !== undefined) requireTensor('tensor', unread.tensor);
  return unread;
}

/** Ends windows of a tensor that was read instead: as after a loop over them, there are no more. */
export async function consume(windows: object): Promise<void> {
  UNREAD.delete(windows);
  await (windows as AsyncGenerator).return(undefined);
}

async function* decoded(
  tensor: SliceableTensor,
  options: TransferOptions,
  begin: () => void,
): AsyncGenerator<ArrayLike<number>, void, void> {
  begin();
  requireTensor('tensor', tensor);
  for await (const [part] of alikeParts([tensor], options)) yield valueNumbers(part as Tensor);
}

/** Throws a TypeError for a path, a checkpoint or whatever else has no separate values. */
export function requireTensor(name: string, tensor: unknown): void {
  const { shape, slice } = Object(tensor) as Partial<SliceableTensor>;
  if (Array.isArray(shape) && typeof slice === 'function') return;
  throw argumentTypeError(name, 'a tensor, such as checkpoint.getTensor(name)', tensor);
}

/**
 * The values of tensors of one shape, cut alike. Arrays are reused: each is valid until the next is requested. Progress
 * counts bytes of the first.
 */
export async function* alikeWindows(
  tensors: readonly SliceableTensor[],
  options: TransferOptions,
): AsyncGenerator<ValueWindow, void, void> {
  const [{ shape }] = tensors as readonly [SliceableTensor];
  const length = Math.min(COMPARED_ELEMENTS, elementCountOf(shape));
  const memories = tensors.map(({ dtype }) => new Float32Array(isConverted(dtype) ? length : 0));
  for await (const parts of alikeParts(tensors, options)) {
    for (const box of boxesIn(parts, COMPARED_ELEMENTS)) {
      const cuts = parts.map((part) => part.slice(...box));
      yield {
        values: cuts.map((part, i) => valueNumbersIn(part, memories[i] as Float32Array)),
        parts: cuts,
      };
      await yieldIfDue();
      options.signal?.throwIfAborted();
    }
  }
}

/** Boxes of tensors of one shape; one, if elements share bytes. */
function boxesIn(
  tensors: readonly Pick<SliceableTensor, 'dtype' | 'shape'>[],
  maxElements: number,
): Iterable<SliceIndices> {
  const [{ shape }] = tensors as readonly [SliceableTensor];
  const isCut = elementCountOf(shape) > maxElements;
  return isCut && tensors.every(({ dtype }) => isByteSized(dtype))
    ? boxesOf(shape, maxElements)
    : [[]];
}

/** Parts of tensors of one shape, cut alike, in the order of their bytes. Progress counts bytes of the first. */
export async function* alikeParts(
  tensors: readonly SliceableTensor[],
  options: TransferOptions,
): AsyncGenerator<readonly Tensor[], void, void> {
  const { signal } = options;
  const [first] = tensors as readonly [SliceableTensor];
  const transfer = new Transfer(tensorByteLength(first), options);
  signal?.throwIfAborted();
  for await (const parts of partsOf(tensors)) {
    yield parts;
    transfer.advance((parts[0] as Tensor).byteLength);
    await yieldIfDue();
    signal?.throwIfAborted();
  }
  transfer.finish();
}

/** While one part is used the next is under way: of a remote tensor it has to be fetched. */
async function* partsOf(
  tensors: readonly SliceableTensor[],
): AsyncGenerator<readonly Tensor[], void, void> {
  const [{ shape }] = tensors as readonly [SliceableTensor];
  if (elementCountOf(shape) === 0) return;
  let ahead: Promise<readonly Tensor[]> | undefined;
  try {
    for (const box of boxesIn(tensors, WINDOW_ELEMENTS)) {
      const next = Promise.all(tensors.map(async (tensor) => await tensor.slice(...box)));
      // Its error is thrown when its turn comes.
      next.catch(() => {});
      const parts = ahead;
      ahead = next;
      if (parts !== undefined) yield await parts;
    }
    if (ahead !== undefined) yield await ahead;
  } finally {
    await ahead?.catch(() => {});
  }
}
