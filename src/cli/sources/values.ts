/** Converts values of tensors to numbers and texts, and cuts tensors into windows. */

import { DTYPES, type Dtype, fromFloat32, type Tensor } from '../../index.js';
import {
  complexScalarText,
  complexTexts,
  FLOAT32_FORM,
  FLOAT64_FORM,
  type FloatForm,
  floatTexts,
  scalarText,
} from '../output/float-text.js';
import { boxesOf } from './boxes.js';
import type { LongWork } from './long-work.js';

const INTEGER_DTYPES: readonly Dtype[] = ['U8', 'I8', 'I16', 'U16', 'I32', 'U32', 'I64', 'U64'];

/** Elements to convert at a time. */
const WINDOW_ELEMENTS = 2 ** 22;

function float16Bits(value: number): number {
  return fromFloat32(Float32Array.of(value), 'F16')[0] as number;
}

const FLOAT16_FORM: FloatForm = {
  isSame: (a, b) => float16Bits(a) === float16Bits(b),
  large: 1e3,
  largeScalar: 1e3,
};

/** NumPy lacks other dtypes: their values are shown as float32. */
function formOf(dtype: Dtype): FloatForm {
  if (dtype === 'F64') return FLOAT64_FORM;
  return dtype === 'F16' ? FLOAT16_FORM : FLOAT32_FORM;
}

/** Whether its elements are whole numbers. */
export function isInteger(dtype: Dtype): boolean {
  return INTEGER_DTYPES.includes(dtype);
}

/** The values; of C64 real and imaginary parts in turn. Integers of 64 bits are rounded. */
export function valueNumbers(tensor: Tensor): ArrayLike<number> {
  const { dtype } = tensor;
  if (dtype === 'I64' || dtype === 'U64') return Float64Array.from(tensor.data as never, Number);
  const isPlain = isInteger(dtype) || dtype === 'BOOL' || dtype === 'F64';
  if (isPlain || dtype === 'F32' || dtype === 'C64') return tensor.data as ArrayLike<number>;
  return tensor.toFloat32();
}

/** Formats the elements of parts of one tensor as numpy prints them, in one form for all. */
export function valueTexts(parts: readonly Tensor[]): string[][] {
  const lengths = parts.map(({ elementCount }) => elementCount);
  const texts = formatted(parts);
  let begin = 0;
  return lengths.map((length) => {
    begin += length;
    return texts.slice(begin - length, begin);
  });
}

function formatted(parts: readonly Tensor[]): string[] {
  const [{ dtype, shape }] = parts as readonly [Tensor];
  if (isInteger(dtype)) {
    return aligned(parts.flatMap(({ data }) => Array.from(data as ArrayLike<unknown>, String)));
  }
  const numbers = parts.flatMap((part) => Array.from(valueNumbers(part)));
  if (dtype === 'BOOL') {
    const width = shape.length === 0 ? 0 : 'False'.length;
    return numbers.map((value) => (value === 0 ? 'False' : 'True').padStart(width));
  }
  const form = formOf(dtype);
  if (shape.length > 0) return (dtype === 'C64' ? complexTexts : floatTexts)(numbers, form);
  const [value, imaginary] = numbers as [number, number];
  return [dtype === 'C64' ? complexScalarText(value, imaginary, form) : scalarText(value, form)];
}

function aligned(texts: readonly string[]): string[] {
  const width = texts.reduce((most, { length }) => Math.max(most, length), 0);
  return texts.map((text) => text.padStart(width));
}

/** Whether a slice may begin at any element: packed elements may begin inside a byte. */
export function isByteSized(dtype: Dtype): boolean {
  return DTYPES[dtype].bits % 8 === 0;
}

/** Cuts tensors of one shape into the same windows, to convert in little memory. */
export function* valueWindows<Tensors extends readonly [Tensor, ...Tensor[]]>(
  ...tensors: Tensors
): Generator<Tensors> {
  const [{ shape, elementCount }] = tensors;
  if (elementCount === 0) return;
  if (elementCount <= WINDOW_ELEMENTS || !tensors.every(({ dtype }) => isByteSized(dtype))) {
    yield tensors;
    return;
  }
  for (const box of boxesOf(shape, WINDOW_ELEMENTS)) {
    yield tensors.map((tensor) => tensor.slice(...box)) as readonly Tensor[] as Tensors;
  }
}

/** The values of a tensor window by window, each counted as work before it is used. */
export async function* numberWindows(
  tensor: Tensor,
  work: LongWork,
): AsyncGenerator<ArrayLike<number>> {
  for (const [window] of valueWindows(tensor)) {
    await work.did(window.byteLength);
    yield valueNumbers(window);
  }
}
