/** Tensors and storages in a checkpoint's pickle, before their bytes are read. */

import { type PickleMap, PickleObject, type PickleValue } from '../../pickle/values.js';
import type { TorchDtype } from './dtypes.js';

/** A storage, described by a persistent id. */
export class TorchStorage extends PickleObject {
  /** Its name in the checkpoint. */
  readonly key: string;
  /** Null for bytes without a dtype. */
  readonly dtype: TorchDtype | null;
  /** Number of elements, or of bytes without a dtype. */
  readonly elementCount: number;

  /** `elementCount` counts elements. */
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

/** A storage whose elements are in the pickle. */
export class PickledStorage extends TorchStorage {
  /** The dtype of the stored elements: float32 for bfloat16, else `dtype`. */
  readonly storedDtype: TorchDtype;
  /** The stored elements, little endian. */
  readonly bytes: Uint8Array<ArrayBuffer>;

  /** Doesn't copy the bytes. */
  constructor(dtype: TorchDtype, storedDtype: TorchDtype, bytes: Uint8Array<ArrayBuffer>) {
    super('', dtype, bytes.length / storedDtype.itemByteLength);
    this.storedDtype = storedDtype;
    this.bytes = bytes;
  }
}

/** A view into a storage, which torch 0.3 wrote as a separate storage. */
export class TorchStorageView extends PickleObject {
  readonly whole: TorchStorage;
  /** First element. */
  readonly begin: number;
  readonly elementCount: number;

  /** The view lies within the storage. */
  constructor(whole: TorchStorage, begin: number, elementCount: number) {
    super();
    this.whole = whole;
    this.begin = begin;
    this.elementCount = elementCount;
  }
}

/** A dense tensor as the pickle describes it, unchecked. */
export class TorchTensor extends PickleObject {
  readonly storage: TorchStorage | TorchStorageView;
  readonly dtype: TorchDtype;
  readonly offset: PickleValue;
  readonly shape: PickleValue;
  readonly strides: PickleValue;
  readonly isConjugate: boolean;
  readonly isNegative: boolean;
  /** Attributes set by a state; empty for nearly all tensors. */
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

/** A tensor of a kind without a counterpart in safetensors. */
export class UnsupportedTensor extends PickleObject {
  /** The kind, to complete "found …". */
  readonly kind: string;
  /** The dense tensors inside: torch reads the tensor only if it can read these. */
  readonly parts: readonly TorchTensor[];

  /** Parts are not checked yet. */
  constructor(kind: string, parts: readonly TorchTensor[]) {
    super();
    this.kind = kind;
    this.parts = parts;
  }
}

/** A tensor of a class from before torch 0.4, before its state is set. */
export class OldTensor extends UnsupportedTensor {}

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

  /** Type and, if there are several of the type, number. */
  constructor(type: string, index: number | undefined) {
    super();
    this.type = type;
    this.index = index;
  }

  /** As Python's `str` shows it. */
  get text(): string {
    return this.index === undefined ? this.type : `${this.type}:${this.index}`;
  }

  override get formattedKey(): string {
    return `d${this.text}`;
  }
}

/** A `torch.Size`: a tuple with a different `repr`. */
export class TorchSize extends Array<PickleValue> {}

/** Any tensor, readable or not. */
export type AnyTensor = TorchTensor | UnsupportedTensor;

/** Whether a value is a tensor, readable or not. */
export function isTensor(value: PickleValue | undefined): value is AnyTensor {
  return value instanceof TorchTensor || value instanceof UnsupportedTensor;
}

/** The dense tensors inside a tensor. */
export function partsOf(tensor: AnyTensor): readonly TorchTensor[] {
  return tensor instanceof TorchTensor ? [tensor] : tensor.parts;
}

/** Whether a value is a storage, or a part of one. */
export function isStorage(
  value: PickleValue | undefined,
): value is TorchStorage | TorchStorageView {
  return value instanceof TorchStorage || value instanceof TorchStorageView;
}

/** The dtype of a storage's elements; null for untyped bytes. */
export function storageDtype(storage: TorchStorage | TorchStorageView): TorchDtype | null {
  return storage instanceof TorchStorage ? storage.dtype : storage.whole.dtype;
}
