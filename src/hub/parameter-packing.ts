/** What counting the parameters of quantized tensors needs, whatever the method. */
import { DTYPES, type Dtype } from '../format/dtype.js';

/** Dtypes in which quantizers pack narrower values. */
export const INTEGERS: ReadonlySet<Dtype> = new Set(['U8', 'I8', 'U16', 'I16', 'U32', 'I32']);

/** A tensor to count. */
export interface CountedTensor {
  readonly name: string;
  readonly dtype: Dtype;
}

/** Parameters per element; 0 for tensors that only serve to read others. */
export type Multiplier = (tensor: CountedTensor) => number;

/** The members of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** The fields of a JSON object; none of anything else. */
export function fieldsOf(value: unknown): Fields {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Fields) : {};
}

/** The part of a name behind the last dot. */
export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** How many values of `bits` each element of an integer dtype holds; may be a fraction. */
export function packingFactor(dtype: Dtype, bits: unknown): number {
  const isPacked = typeof bits === 'number' && bits > 0 && bits < DTYPES[dtype].bits;
  return isPacked && INTEGERS.has(dtype) ? DTYPES[dtype].bits / bits : 1;
}
