/** Turns items of a file into values of a tensor: byte order, signs, conjugates. */

import { type ErrorContext, FormatError } from '../errors/errors.js';
import { DTYPES, type Dtype } from '../header/dtype.js';
import type { Change } from './tensors/strided-fill.js';

/** How the items of a file differ from the values of the tensor. */
export interface ValueChanges {
  /** The high byte comes first. */
  readonly isBigEndian?: boolean | undefined;
  /** torch's conjugate bit: the imaginary parts have the other sign. */
  readonly isConjugate?: boolean | undefined;
  /** torch's negative bit: all parts have the other sign. */
  readonly isNegative?: boolean | undefined;
}

/**
 * Returns the function that makes these changes; undefined without changes, and a FormatError
 * `SAFETENSORS_UNSUPPORTED_TENSOR` for a dtype that has no sign or no conjugate.
 */
export function changeOf(
  dtype: Dtype,
  { isBigEndian = false, isConjugate = false, isNegative = false }: ValueChanges,
  context: ErrorContext,
): Change | FormatError | undefined {
  if (!isBigEndian && !isConjugate && !isNegative) return undefined;
  const changes: Change[] = [];
  const unit = dtype === 'C64' ? 4 : DTYPES[dtype].bits / 8;
  if (isBigEndian && unit > 1) changes.push((items) => swapBytes(items, unit));
  if (isConjugate) {
    if (dtype !== 'C64') return rejectedChange(`a conjugate of ${dtype}`, context);
    changes.push((items) => flipSigns(items, Uint32Array, 1, 2));
  }
  const negated = isNegative ? negation(dtype, context) : undefined;
  if (negated instanceof FormatError) return negated;
  if (negated !== undefined) changes.push(negated);
  if (changes.length === 0) return undefined;
  return (items) => {
    for (const change of changes) change(items);
  };
}

function swapBytes({ buffer, byteOffset, length }: Uint8Array, unit: number): void {
  const bytes = Buffer.from(buffer, byteOffset, length);
  if (unit === 2) bytes.swap16();
  else if (unit === 4) bytes.swap32();
  else bytes.swap64();
}

/** The constructor of a typed array. */
interface WordsConstructor<Words> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): Words;
}

/** Flips the highest bit of every `step`th word, from the word `first` on. */
function flipSigns(
  items: Uint8Array,
  Type: WordsConstructor<Uint16Array | Uint32Array>,
  first: number,
  step: number,
): void {
  const words = wordsOf(items, Type);
  const sign = 2 ** (Type.BYTES_PER_ELEMENT * 8 - 1);
  for (let i = first; i < words.length; i += step) words[i] = (words[i] as number) ^ sign;
}

/** Integers wrap around, as in torch. */
function negation(dtype: Dtype, context: ErrorContext): Change | FormatError {
  switch (dtype) {
    case 'F16':
    case 'BF16':
      return (items) => flipSigns(items, Uint16Array, 0, 1);
    case 'F32':
    case 'C64':
      return (items) => flipSigns(items, Uint32Array, 0, 1);
    case 'F64':
      return (items) => flipSigns(items, Uint32Array, 1, 2);
    case 'I8':
    case 'U8':
      return (items) => negate(items);
    case 'I16':
    case 'U16':
      return (items) => negate(wordsOf(items, Uint16Array));
    case 'I32':
    case 'U32':
      return (items) => negate(wordsOf(items, Uint32Array));
    case 'I64':
    case 'U64':
      return (items) => {
        const words = wordsOf(items, BigUint64Array);
        for (let i = 0; i < words.length; i++) words[i] = -(words[i] as bigint);
      };
    default:
      return rejectedChange(`a negative of ${dtype}`, context);
  }
}

function negate(words: Uint8Array | Uint16Array | Uint32Array): void {
  for (let i = 0; i < words.length; i++) words[i] = -(words[i] as number);
}

function wordsOf<Words>(
  { buffer, byteOffset, length }: Uint8Array,
  Type: WordsConstructor<Words>,
): Words {
  return new Type(buffer, byteOffset, length / Type.BYTES_PER_ELEMENT);
}

function rejectedChange(found: string, context: ErrorContext): FormatError {
  const message = `expected values that can be written, found ${found}`;
  return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
}
