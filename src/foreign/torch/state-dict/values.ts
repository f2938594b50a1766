/** What a checkpoint's pickle builds beside plain data. Nothing here has bytes yet. */

import { type PickleMap, PickleObject, type PickleValue } from '../../pickle/values.js';
import type { TorchDtype } from './dtypes.js';

/** A storage, as a persistent id says it. */
export class TorchStorage extends PickleObject {
  /** Its name in the checkpoint. */
  readonly key: string;
  /** Null for bytes without a dtype. */
  readonly dtype: TorchDtype | null;
  /** Number of elements; of bytes without a dtype. */
  readonly elementCount: number;

  /** The length is that of the elements. */
  constructor(key: string, dtype: TorchDtype | null, elementCount: number) {
    super();
    this.key = key;
    this.dtype = dtype;
    this.elementCount = elementCount;
  }

  get itemByteLength(): number {
    return this.dtype?.itemByteLength ?? 1;
  }

  get byteLength(): number {
    return this.elementCount * this.itemByteLength;
  }
}

/** A part of a storage that is named as a storage, as torch 0.3 wrote it. */
export class TorchStorageView extends PickleObject {
  readonly whole: TorchStorage;
  /** First element. */
  readonly begin: number;
  readonly elementCount: number;

  /** The part lies within the whole. */
  constructor(whole: TorchStorage, begin: number, elementCount: number) {
    super();
    this.whole = whole;
    this.begin = begin;
    this.elementCount = elementCount;
  }
}

/** A dense tensor, as the pickle says it: nothing of it has been checked. */
export class TorchTensor extends PickleObject {
  readonly storage: TorchStorage | TorchStorageView;
  readonly dtype: TorchDtype;
  readonly offset: PickleValue;
  readonly shape: PickleValue;
  readonly strides: PickleValue;
  readonly isConjugate: boolean;
  readonly isNegative: boolean;
  /** What a state has set in it; empty for nearly all. */
  readonly attributes: readonly PickleMap[];

  /** As `_rebuild_tensor_v2` takes it. */
  constructor(
    storage: TorchStorage | TorchStorageView,
    dtype: TorchDtype,
    [offset, shape, strides]: readonly [PickleValue, PickleValue, PickleValue],
    bits: { readonly isConjugate: boolean; readonly isNegative: boolean },
    attributes: readonly PickleMap[] = [],
  ) {
    super();
    this.storage = storage;
    this.dtype = dtype;
    this.offset = offset;
    this.shape = shape;
    this.strides = strides;
    this.isConjugate = bits.isConjugate;
    this.isNegative = bits.isNegative;
    this.attributes = attributes;
  }

  /** Another tensor over the same elements. */
  withAttributes(attributes: readonly PickleMap[]): TorchTensor {
    const { storage, dtype, offset, shape, strides } = this;
    const all = [...this.attributes, ...attributes];
    return new TorchTensor(storage, dtype, [offset, shape, strides], this, all);
  }
}

/** A tensor of a kind that safetensors does not have. */
export class RefusedTensor extends PickleObject {
  /** What it is, to complete "found …". */
  readonly kind: string;
  /** The dense tensors that it is made of: torch reads it only when it reads these. */
  readonly parts: readonly TorchTensor[];

  /** Parts are not checked yet. */
  constructor(kind: string, parts: readonly TorchTensor[]) {
    super();
    this.kind = kind;
    this.parts = parts;
  }
}

/** One of a class of torch before 0.4, before it is given a state. */
export class OldTensor extends RefusedTensor {}

/** One of Python's complex numbers. */
export class ComplexNumber extends PickleObject {
  readonly real: number;
  readonly imag: number;

  /** Both parts. */
  constructor(real: number, imag: number) {
    super();
    this.real = real;
    this.imag = imag;
  }
}

/** One of torch's devices. */
export class TorchDevice extends PickleObject {
  readonly type: string;
  readonly index: number | undefined;

  /** Type and, of several of that type, its number. */
  constructor(type: string, index: number | undefined) {
    super();
    this.type = type;
    this.index = index;
  }

  /** As Python's `str` shows it. */
  get text(): string {
    return this.index === undefined ? this.type : `${this.type}:${this.index}`;
  }

  override get keyText(): string {
    return `d${this.text}`;
  }
}

/** A `torch.Size`: to Python a tuple that is shown in another way. */
export class TorchSize extends Array<PickleValue> {}

/** Any tensor, readable or not. */
export type AnyTensor = TorchTensor | RefusedTensor;

/** Whether a value is one. */
export function isTensor(value: PickleValue | undefined): value is AnyTensor {
  return value instanceof TorchTensor || value instanceof RefusedTensor;
}

/** The dense tensors that a tensor is made of. */
export function partsOf(tensor: AnyTensor): readonly TorchTensor[] {
  return tensor instanceof TorchTensor ? [tensor] : tensor.parts;
}

/** Whether a value is a storage, or a part of one. */
export function isStorage(
  value: PickleValue | undefined,
): value is TorchStorage | TorchStorageView {
  return value instanceof TorchStorage || value instanceof TorchStorageView;
}

/** The dtype of a storage's elements; null for bytes without one. */
export function storageDtype(storage: TorchStorage | TorchStorageView): TorchDtype | null {
  return storage instanceof TorchStorage ? storage.dtype : storage.whole.dtype;
}
