/** Tensors of a checkpoint, checked: what is known of them, and where their bytes are. */

import { type ErrorContext, ForeignFormatError } from '../../errors/errors.js';
import type { Dtype } from '../../format/dtype.js';
import type { StorageBytes } from '../../storage/made.js';
import type { Storage } from '../../storage/storage.js';
import type { ForeignTensor } from '../foreign-tensor.js';
import type { MemoryBudget } from '../pickle/memory-budget.js';
import type { PickleValue } from '../pickle/values.js';
import { tensorData } from '../tensor-data.js';
import {
  checkLayout,
  isContiguous,
  type LayoutLimits,
  type TensorLayout,
} from '../tensor-layout.js';
import type { TensorProblems } from '../tensor-problems.js';
import { type Change, changeOf } from '../value-changes.js';
import type { DescribedCheckpoint } from './described.js';
import { TensorSearch } from './states.js';
import {
  type AnyTensor,
  RefusedTensor,
  TorchSize,
  TorchStorage,
  type TorchTensor,
} from './values.js';

/** A tensor that can be read. */
interface CheckedTensor {
  readonly name: string;
  readonly tensor: TorchTensor;
  readonly dtype: Dtype;
  readonly layout: TensorLayout;
  readonly change: Change | undefined;
}

/** What is known of a tensor takes so much memory, and so much more per dimension. */
const TENSOR_BYTE_LENGTH = 520;
const DIMENSION_BYTE_LENGTH = 64;

const INVALID = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';

/** Counts what is known of so many tensors, but for their dimensions. */
export function spendTensors(count: number, memory: MemoryBudget): void {
  memory.spend(count * TENSOR_BYTE_LENGTH);
}

/**
 * Checks all tensors, and returns a function that finds the bytes of those that can be read in the storage of
 * the file. What is wrong with others is collected.
 *
 * @throws ForeignFormatError as `TensorProblems.collect`
 */
export function checkTensors(
  tensors: ReadonlyMap<string, AnyTensor>,
  described: DescribedCheckpoint,
  limits: LayoutLimits,
  memory: MemoryBudget,
  problems: TensorProblems,
  context: ErrorContext,
): (file: Storage) => ForeignTensor[] {
  const checked: CheckedTensor[] = [];
  const search = new TensorSearch(memory);
  for (const [name, tensor] of tensors) {
    const tensorContext = { ...context, tensor: name };
    const one = problems.collect(() =>
      checkTensor(name, tensor, described, limits, search, tensorContext),
    );
    if (one === undefined) continue;
    memory.spend(DIMENSION_BYTE_LENGTH * one.layout.shape.length);
    checked.push(one);
  }
  return (file) => {
    const place = placesOnce(described.placesIn(file));
    return checked.map((one) => foreignTensor(one, place));
  };
}

function checkTensor(
  name: string,
  tensor: AnyTensor,
  { isBigEndian }: DescribedCheckpoint,
  limits: LayoutLimits,
  search: TensorSearch,
  context: ErrorContext,
): CheckedTensor {
  if (tensor instanceof RefusedTensor) {
    throw new ForeignFormatError(
      tensor.code,
      `expected a dense tensor, found ${tensor.kind}`,
      context,
    );
  }
  const { dtype, itemByteLength, name: torchName } = tensor.dtype;
  if (dtype === null) {
    const message = `expected a dtype that safetensors has, found torch.${torchName}`;
    throw new ForeignFormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  const given = {
    itemByteLength,
    shape: integersOf(tensor.shape, 'a shape', context),
    strides: integersOf(tensor.strides, 'strides', context),
    offset: integerOf(tensor.offset, 'an offset', context),
  };
  const layout = checkLayout(given, heldByteLength(tensor), limits, INVALID, context);
  if (dtype === 'F4' && layout.shape.length === 0) {
    const message = 'expected a dimension of packed values, found a scalar';
    throw new ForeignFormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  if (isBigEndian && !isSwappedAlike(tensor)) {
    const message = `expected the dtype of its storage, by which torch swaps bytes, found torch.${torchName}`;
    throw new ForeignFormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  if (search.finds(tensor.attributes)) {
    const message =
      'expected attributes without tensors, found some, which would be lost; save them under keys of their own';
    throw new ForeignFormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  const { isConjugate, isNegative } = tensor;
  const change = changeOf(dtype, { isBigEndian, isConjugate, isNegative }, context);
  return { name, tensor, dtype, layout, change };
}

/** Whether swapping the bytes of the whole storage swaps those of the tensor. */
function isSwappedAlike({ storage, dtype }: TorchTensor): boolean {
  const whole = storage instanceof TorchStorage ? storage : storage.whole;
  return whole.dtype === dtype || (whole.itemByteLength === 1 && dtype.itemByteLength === 1);
}

/** The tuple itself: it is never written to. */
function integersOf(
  value: PickleValue,
  what: string,
  context: ErrorContext,
): readonly (number | bigint)[] {
  if (!Array.isArray(value)) {
    throw new ForeignFormatError(INVALID, `expected ${what}, found another value`, context);
  }
  for (const item of value) integerOf(item, what, context);
  return value instanceof TorchSize ? Array.from(value as (number | bigint)[]) : value;
}

function integerOf(value: PickleValue, what: string, context: ErrorContext): number | bigint {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  throw new ForeignFormatError(INVALID, `expected ${what} of integers, found others`, context);
}

function heldByteLength({ storage }: TorchTensor): number {
  if (storage instanceof TorchStorage) return storage.byteLength;
  return storage.elementCount * storage.whole.itemByteLength;
}

/** Each storage is found once: what is inflated is kept by it. */
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

function foreignTensor(
  { name, tensor, dtype, layout, change }: CheckedTensor,
  place: (storage: TorchStorage) => StorageBytes,
): ForeignTensor {
  const { storage } = tensor;
  const isView = !(storage instanceof TorchStorage);
  const whole = isView ? storage.whole : storage;
  const begin = isView ? storage.begin * whole.itemByteLength : 0;
  const all = place(whole);
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
    // What has other values than the memory shares it with none.
    storage: isShareable ? whole : tensor,
    storageByteLength: isShareable ? whole.byteLength : layout.byteLength,
    byteOffset: isShareable ? begin + offset * itemByteLength : 0,
    ...(isShareable && !isContiguous(layout) ? { strides } : {}),
    data: tensorData(held, layout, change),
  };
}
