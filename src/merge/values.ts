/** Values of floating-point tensors as float64, and back to their dtype, rounded once. */

import type { Advice } from '../errors/advice.js';
import { SafetensorsError } from '../errors/errors.js';
import { DTYPES, type Dtype } from '../header/dtype.js';
import { type CastSource, isCastSource } from '../tensor/float32/cast.js';
import { cast, toFloat32 } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';

/** The dtypes of weights that can be merged. */
export type MergeDtype = CastSource;

/**
 * Returns the dtype of a weight to merge.
 *
 * @throws SafetensorsError `SAFETENSORS_MERGE_UNSUPPORTED` for any but F64, F32, F16 and BF16
 */
export function requireMergeDtype(
  dtype: Dtype,
  name: string,
  path: string | undefined,
): MergeDtype {
  if (isCastSource(dtype)) return dtype;
  const message = `${dtype} weights cannot be merged; cast to BF16, F16 or F32 first`;
  throw new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, { path, tensor: name });
}

/** Reads the elements from `first` on, as many as fit, without retaining bytes. */
export function readValues(tensor: Tensor, first: number, into: Float64Array): void {
  if (into.length === 0) return;
  const source = TensorOf.sourceOf(tensor);
  const width = DTYPES[tensor.dtype].bits / 8;
  const begin = TensorOf.offsetOf(tensor) + first * width;
  const end = begin + into.length * width;
  const bytes = source.isComputed ? source.window(begin, end) : source.sharedOrWindow(begin, end);
  if (tensor.dtype === 'F64') {
    into.set(new Float64Array(bytes.slice().buffer));
  } else {
    const values = new Float32Array(into.length);
    toFloat32(tensor.dtype, bytes, values);
    into.set(values);
  }
  source.verify();
}

/** Which elements became what they are. */
export interface EncodedTensor {
  readonly name: string;
  readonly dtype: MergeDtype;
  readonly path: string | undefined;
  /** Whether infinities and NaN are errors. */
  readonly mustBeFinite: boolean;
}

/**
 * Writes values as elements of a dtype, rounded once.
 *
 * @param output aligned to 4 bytes
 * @throws SafetensorsError `SAFETENSORS_NON_FINITE` for NaN, an infinity, or a value that is too large for the dtype
 */
export function writeValues(values: Float64Array, tensor: EncodedTensor, output: Uint8Array): void {
  const { dtype, mustBeFinite } = tensor;
  if (mustBeFinite && !areFinite(values)) throw notFinite(tensor, 'NaN or an infinity');
  if (dtype === 'F64') {
    output.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return;
  }
  if (dtype === 'F32') {
    const floats = new Float32Array(output.buffer, output.byteOffset, values.length);
    floats.set(values);
    if (mustBeFinite && !areFinite(floats))
      throw notFinite(tensor, 'a value that is too large for F32');
    return;
  }
  const tooLarge = cast('F32', dtype, bytesOf(roundedToOdd(values)), output);
  if (mustBeFinite && tooLarge > 0)
    throw notFinite(tensor, `a value that is too large for ${dtype}`);
}

/** Rounds values to a dtype, in place. */
export function roundValues(values: Float64Array, dtype: MergeDtype): void {
  if (dtype === 'F64') return;
  const elements = new Uint8Array((values.length * DTYPES[dtype].bits) / 8);
  writeValues(values, { name: '', dtype, path: undefined, mustBeFinite: false }, elements);
  const floats = new Float32Array(values.length);
  toFloat32(dtype, elements, floats);
  values.set(floats);
}

/**
 * Rounds to float32 such that rounding again, to a narrower dtype, gives the same as rounding once: what is not exact
 * gets an odd last bit.
 */
function roundedToOdd(values: Float64Array): Float32Array<ArrayBuffer> {
  const rounded = new Float32Array(values);
  const words = new Int32Array(rounded.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    const nearest = rounded[i] as number;
    // NaN stays NaN; a value that became infinite becomes the largest float32, which a narrower dtype rounds up.
    if (nearest === value) continue;
    const isAway = Math.abs(nearest) > Math.abs(value);
    words[i] = ((words[i] as number) - (isAway ? 1 : 0)) | 1;
  }
  return rounded;
}

function areFinite(values: Float64Array | Float32Array): boolean {
  let sum = 0;
  // 0 for finite values, else NaN.
  for (let i = 0; i < values.length; i++) sum += (values[i] as number) * 0;
  return sum === 0;
}

/** Advice for values that are not finite. */
const KEEP: Advice = { option: 'nonFinite', text: "pass nonFinite: 'keep'" };

function notFinite({ name, path }: EncodedTensor, found: string): SafetensorsError {
  const message = `the merged weight contains ${found}; check the scale of the adapter; ${KEEP.text}`;
  const context = { path, tensor: name, advice: [KEEP] };
  return new SafetensorsError('SAFETENSORS_NON_FINITE', message, context);
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array<ArrayBuffer>): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
