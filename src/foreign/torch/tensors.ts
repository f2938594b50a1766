/** Checks a checkpoint's tensors: their facts and the places of their bytes. */

import { type ErrorContext, FormatError } from '../../errors/errors.js';
import type { Dtype } from '../../header/dtype.js';
import { fromFloat32 } from '../../tensor/float32/from-float32.js';
import { ComputedStorage, type Fill, type StorageBytes } from '../../tensor/storage/computed.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { MemoryBudget } from '../pickle/memory-budget.js';
import type { PickleValue } from '../pickle/values.js';
import { tensorData } from '../tensor-data.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { Change } from '../tensors/strided-fill.js';
import {
  checkLayout,
  isContiguous,
  type LayoutLimits,
  type TensorLayout,
} from '../tensors/tensor-layout.js';
import { readEach } from '../tensors/tensor-problems.js';
import { changeOf } from '../value-changes.js';
import type { DescribedCheckpoint } from './described.js';
import { TensorSearch } from './state-dict/states.js';
import {
  type AnyTensor,
  PickledStorage,
  TorchSize,
  TorchStorage,
  type TorchTensor,
  UnsupportedTensor,
} from './state-dict/values.js';

/** A tensor that can be read. */
interface CheckedTensor {
  readonly name: string;
  readonly tensor: TorchTensor;
  readonly dtype: Dtype;
  readonly layout: TensorLayout;
  readonly change: Change | undefined;
}

/** Memory of a tensor's facts, and more for each dimension. */
const TENSOR_BYTE_LENGTH = 520;
const DIMENSION_BYTE_LENGTH = 64;

const INVALID = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';

/** Counts the facts of `count` tensors, without their dimensions. */
export function spendTensors(count: number, memory: MemoryBudget): void {
  memory.spend(count * TENSOR_BYTE_LENGTH);
}

/** Tensors that were checked. */
interface CheckedTensors {
  /** The reasons why the others cannot be read. */
  readonly problems: readonly FormatError[];
  /** Finds the bytes of the readable tensors in the storage of the file. */
  readonly tensorsIn: (file: Storage) => ForeignTensor[];
}

/**
 * Checks all tensors.
 *
 * @throws FormatError as `readEach`
 */
export function checkTorchTensors(
  tensors: ReadonlyMap<string, AnyTensor>,
  described: DescribedCheckpoint,
  limits: LayoutLimits,
  memory: MemoryBudget,
  context: ErrorContext,
): CheckedTensors {
  const checked: CheckedTensor[] = [];
  const search = new TensorSearch(memory);
  const spend = (byteLength: number): void => memory.spend(byteLength);
  const check = ([name, tensor]: [string, AnyTensor]): FormatError | undefined => {
    const tensorContext = { ...context, tensor: name };
    const one = checkTensor(name, tensor, described, limits, search, tensorContext);
    if (one instanceof FormatError) return one;
    spend(DIMENSION_BYTE_LENGTH * one.layout.shape.length);
    checked.push(one);
    return undefined;
  };
  const problems = readEach(tensors, tensors.size, check, spend);
  const tensorsIn = (file: Storage): ForeignTensor[] => {
    const place = placesOnce(described.placesIn(file));
    return checked.map((one) => mappedTensor(one, place, file));
  };
  return { problems, tensorsIn };
}

/** Returns a FormatError for a tensor that safetensors cannot hold; throws others. */
function checkTensor(
  name: string,
  tensor: AnyTensor,
  described: DescribedCheckpoint,
  limits: LayoutLimits,
  search: TensorSearch,
  context: ErrorContext,
): CheckedTensor | FormatError {
  // NumPy arrays have a byte order of their own: only little-endian ones are read.
  const isBigEndian = described.isBigEndian && !isPickled(tensor);
  const unsupported = (message: string): FormatError =>
    new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  if (tensor instanceof UnsupportedTensor) {
    for (const part of tensor.parts) torchLayout(part, limits, context);
    return unsupported(`expected a dense tensor, found ${tensor.kind}`);
  }
  const layout = torchLayout(tensor, limits, context);
  const { dtype, name: torchName } = tensor.dtype;
  if (dtype === null) {
    return unsupported(`expected a dtype that safetensors has, found torch.${torchName}`);
  }
  if (dtype === 'F4' && layout.shape.length === 0) {
    return unsupported('expected a dimension of packed values, found a scalar');
  }
  if (isBigEndian && !isSwappedAlike(tensor)) {
    return unsupported(
      `expected the dtype of its storage, by which torch swaps bytes, found torch.${torchName}`,
    );
  }
  if (search.finds(tensor.attributes)) {
    return unsupported(
      'expected attributes without tensors, found some, which would be lost; save them under separate keys',
    );
  }
  const { isConjugate, isNegative } = tensor;
  const change = changeOf(dtype, { isBigEndian, isConjugate, isNegative }, context);
  return change instanceof FormatError ? change : { name, tensor, dtype, layout, change };
}

function isPickled(tensor: AnyTensor): boolean {
  return !(tensor instanceof UnsupportedTensor) && tensor.storage instanceof PickledStorage;
}

/** The elements of a storage in the pickle, which is in memory while the file is open. */
function pickledBytes(
  { bytes, byteLength, storedDtype, dtype }: PickledStorage,
  file: Storage,
): StorageBytes {
  const stored: Fill = (target, position) =>
    target.set(bytes.subarray(position, position + target.length));
  const cast: Fill = (target, position) => {
    // Windows may begin and end within an element.
    const begin = Math.floor(position / 2);
    const end = Math.ceil((position + target.length) / 2);
    const floats = new Float32Array(bytes.slice(4 * begin, 4 * end).buffer);
    const values = fromFloat32(floats, 'BF16');
    const skipped = position - 2 * begin;
    target.set(new Uint8Array(values.buffer).subarray(skipped, skipped + target.length));
  };
  const source = { storage: file, begin: 0, byteLength: 0 };
  const storage = new ComputedStorage(byteLength, source, storedDtype === dtype ? stored : cast);
  return { storage, begin: 0, byteLength };
}

/** The place of the elements in the storage, checked against its length. */
function torchLayout(
  tensor: TorchTensor,
  limits: LayoutLimits,
  context: ErrorContext,
): TensorLayout {
  const given = {
    itemByteLength: tensor.dtype.itemByteLength,
    shape: integersOf(tensor.shape, 'a shape', context),
    strides: integersOf(tensor.strides, 'strides', context),
    offset: torchInteger(tensor.offset, 'an offset', context),
  };
  return checkLayout(given, heldByteLength(tensor), limits, INVALID, context);
}

/** Whether swapping the bytes of the whole storage swaps those of the tensor. */
function isSwappedAlike({ storage, dtype }: TorchTensor): boolean {
  const whole = storage instanceof TorchStorage ? storage : storage.whole;
  return whole.dtype === dtype || (whole.itemByteLength === 1 && dtype.itemByteLength === 1);
}

/** Returns the tuple itself: tuples are immutable. */
function integersOf(
  value: PickleValue,
  what: string,
  context: ErrorContext,
): readonly (number | bigint)[] {
  if (!Array.isArray(value)) {
    throw new FormatError(INVALID, `expected ${what}, found another value`, context);
  }
  for (const item of value) torchInteger(item, what, context);
  return value instanceof TorchSize ? Array.from(value as (number | bigint)[]) : value;
}

function torchInteger(value: PickleValue, what: string, context: ErrorContext): number | bigint {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  throw new FormatError(INVALID, `expected ${what} of integers, found others`, context);
}

function heldByteLength({ storage }: TorchTensor): number {
  if (storage instanceof TorchStorage) return storage.byteLength;
  return storage.elementCount * storage.whole.itemByteLength;
}

/** Looks each storage up once and keeps its inflated bytes. */
function placesOnce(
  place: (storage: TorchStorage) => StorageBytes,
): (storage: TorchStorage) => StorageBytes {
  const places = new Map<TorchStorage, StorageBytes>();
  return (storage) => {
    const known = places.get(storage) ?? place(storage);
    places.set(storage, known);
    return known;
  };
}

function mappedTensor(
  { name, tensor, dtype, layout, change }: CheckedTensor,
  place: (storage: TorchStorage) => StorageBytes,
  file: Storage,
): ForeignTensor {
  const { storage } = tensor;
  const isView = !(storage instanceof TorchStorage);
  const whole = isView ? storage.whole : storage;
  const begin = isView ? storage.begin * whole.itemByteLength : 0;
  const all = whole instanceof PickledStorage ? pickledBytes(whole, file) : place(whole);
  const held = {
    storage: all.storage,
    begin: all.begin + begin,
    byteLength: heldByteLength(tensor),
  };
  // Two values of a byte are one element of torch, and two of safetensors.
  const isPacked = dtype === 'F4';
  const isShareable = !isPacked && !tensor.isConjugate && !tensor.isNegative;
  const { shape, strides, offset, itemByteLength } = layout;
  return {
    name,
    dtype,
    shape: isPacked ? [...shape.slice(0, -1), 2 * (shape.at(-1) as number)] : shape,
    // A tensor whose values differ from the memory shares its bytes with no other.
    storage: isShareable ? whole : tensor,
    storageByteLength: isShareable ? whole.byteLength : layout.byteLength,
    byteOffset: isShareable ? begin + offset * itemByteLength : 0,
    ...(isShareable && !isContiguous(layout) ? { strides } : {}),
    data: tensorData(held, layout, change),
  };
}
