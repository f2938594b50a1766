/** Values of tensors as numpy prints them. */

import { argumentTypeError } from '../../errors/arguments.js';
import type { Dtype } from '../../header/dtype.js';
import { fromFloat32 } from '../../tensor/float32/from-float32.js';
import type { Tensor } from '../../tensor/tensor.js';
import {
  FLOAT32_FORM,
  FLOAT64_FORM,
  type FloatForm,
  formatComplexes,
  formatComplexScalar,
  formatFloats,
  formatScalar,
} from './format-floats.js';
import { isInteger, valueNumbers } from './numbers.js';

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

/**
 * The elements of parts of one tensor as numpy prints them, in one form for all parts: `-1.25`, `1.e-05`, `True`. One
 * array a part, in the order of its bytes.
 *
 * @example
 * ```ts
 * const norm = safeOpen('model.safetensors').getTensor('embed.weight').slice(0);
 * console.log(formatValues([norm])); // → [ [ '0.  ', '0.25', '0.5 ', '0.75' ] ]
 * ```
 */
export function formatValues(parts: readonly Tensor[]): string[][] {
  if (!Array.isArray(parts)) throw argumentTypeError('parts', 'an array of tensors', parts);
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
  if (shape.length > 0) return (dtype === 'C64' ? formatComplexes : formatFloats)(numbers, form);
  const [value, imaginary] = numbers as [number, number];
  return [
    dtype === 'C64' ? formatComplexScalar(value, imaginary, form) : formatScalar(value, form),
  ];
}

function aligned(texts: readonly string[]): string[] {
  const width = texts.reduce((most, { length }) => Math.max(most, length), 0);
  return texts.map((text) => text.padStart(width));
}
