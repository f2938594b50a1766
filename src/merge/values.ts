/** Values of floating-point tensors as float64, and back to their dtype, rounded once. */

import type { Advice } from '../errors/advice.js';
import { SafetensorsError } from '../errors/errors.js';
import { DTYPES, type Dtype } from '../header/dtype.js';
import { type CastSource, isCastSource } from '../tensor/float32/cast.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import type { ByteRange } from '../work/byte-ranges.js';
import type { Work } from '../work/work.js';
import { decode, encode } from './product.js';

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
  const { begin, end } = bytesOfElements(tensor, first, into.length);
  const bytes = source.isComputed ? source.window(begin, end) : source.sharedOrWindow(begin, end);
  decode(tensor.dtype, bytes, into);
  source.verify();
}

/** The bytes of elements in the source of a tensor. */
export function bytesOfElements(tensor: Tensor, first: number, count: number): ByteRange {
  const width = DTYPES[tensor.dtype].bits / 8;
  const begin = TensorOf.offsetOf(tensor) + first * width;
  return { begin, end: begin + count * width };
}

/** A tensor with NaN or an infinity, of which a merged weight is computed. */
export interface NonFiniteInput {
  /** The model, the adapter or the base, for messages. */
  readonly label: string;
  readonly path: string | undefined;
  readonly tensor: string;
}

/** Which elements became what they are. */
export interface EncodedTensor {
  readonly name: string;
  readonly dtype: MergeDtype;
  readonly path: string | undefined;
  /** Whether infinities and NaN are errors. */
  readonly mustBeFinite: boolean;
  /** Finds an input with NaN or an infinity; undefined when all are finite. Reads all inputs: for errors. */
  readonly findNonFinite: () => Work<NonFiniteInput | undefined>;
}

/**
 * Writes values as elements of a dtype, rounded once.
 *
 * @throws SafetensorsError `SAFETENSORS_NON_FINITE` for NaN, an infinity, or a value that is too large for the dtype
 */
export function* writeValues(
  values: Float64Array,
  tensor: EncodedTensor,
  output: Uint8Array,
): Work<void> {
  const { dtype, mustBeFinite } = tensor;
  const count = encode(values, dtype, output);
  if (!mustBeFinite || (count === 0 && dtype !== 'F64')) return;
  if (!areFinite(values)) {
    const input = yield* tensor.findNonFinite();
    throw input === undefined ? notFinite(tensor, 'NaN or an infinity') : nonFiniteInput(input);
  }
  if (count > 0) throw notFinite(tensor, `a value that is too large for ${dtype}`);
}

/** Rounds values to a dtype, in place. */
export function roundValues(values: Float64Array, dtype: MergeDtype): void {
  const elements = new Uint8Array((values.length * DTYPES[dtype].bits) / 8);
  encode(values, dtype, elements);
  decode(dtype, elements, values);
}

/** Whether no value is NaN or an infinity. */
export function areFinite(values: Float64Array): boolean {
  let sum = 0;
  // 0 for finite values, else NaN.
  for (let i = 0; i < values.length; i++) sum += (values[i] as number) * 0;
  return sum === 0;
}

/** Advice for values that are not finite. */
const KEEP: Advice = { option: 'nonFinite', text: "or pass nonFinite: 'keep'" };

/** Advice for inputs with such values. */
const VERIFY: Advice = { option: 'values', text: 'verify(source, { values: true }) lists them' };

function notFinite({ name, path }: EncodedTensor, found: string): SafetensorsError {
  const message = `the merged weight contains ${found}; check scales and weights, ${KEEP.text}`;
  const context = { path, tensor: name, advice: [KEEP] };
  return new SafetensorsError('SAFETENSORS_NON_FINITE', message, context);
}

function nonFiniteInput({ label, path, tensor }: NonFiniteInput): SafetensorsError {
  const message = `${label} contains NaN or an infinity; pass a version without such values, ${KEEP.text}; ${VERIFY.text}`;
  const context = { path, tensor, advice: [KEEP, VERIFY] };
  return new SafetensorsError('SAFETENSORS_NON_FINITE', message, context);
}
