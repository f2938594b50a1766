/**
 * The 22 dtypes of the format. The table has the reference's order, the rank: the writer sorts by it,
 * descending, and a parsed header stores a dtype as its position in the table.
 */

import { SafetensorsError } from '../errors/errors.js';

/** Name of a dtype as it stands in the header; upper case, exact. */
export type Dtype =
  | 'BOOL'
  | 'F4'
  | 'F6_E2M3'
  | 'F6_E3M2'
  | 'U8'
  | 'I8'
  | 'F8_E5M2'
  | 'F8_E4M3'
  | 'F8_E8M0'
  | 'F8_E4M3FNUZ'
  | 'F8_E5M2FNUZ'
  | 'I16'
  | 'U16'
  | 'F16'
  | 'BF16'
  | 'I32'
  | 'U32'
  | 'F32'
  | 'C64'
  | 'F64'
  | 'I64'
  | 'U64';

/** A typed array of any kind, `Float16Array` and `Buffer` among them. */
export interface TypedArray extends ArrayBufferView {
  /** Bytes per item. */
  readonly BYTES_PER_ELEMENT: number;
}

/** The typed array of `Tensor.data` for a dtype; the union of all of them for `Dtype`. */
export type TensorData<
  D extends Dtype = Dtype,
  Memory extends ArrayBufferLike = ArrayBuffer,
> = D extends 'I8'
  ? Int8Array<Memory>
  : D extends 'I16'
    ? Int16Array<Memory>
    : D extends 'U16' | 'F16' | 'BF16'
      ? Uint16Array<Memory>
      : D extends 'I32'
        ? Int32Array<Memory>
        : D extends 'U32'
          ? Uint32Array<Memory>
          : D extends 'F32' | 'C64'
            ? Float32Array<Memory>
            : D extends 'F64'
              ? Float64Array<Memory>
              : D extends 'I64'
                ? BigInt64Array<Memory>
                : D extends 'U64'
                  ? BigUint64Array<Memory>
                  : Uint8Array<Memory>;

/** Constructor of the typed array of `Tensor.data`. */
export interface TensorDataConstructor<D extends Dtype = Dtype> {
  /** Bytes per array element. */
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): TensorData<D, ArrayBufferLike>;
}

/** The facts about one dtype. */
export interface DtypeInfo<D extends Dtype = Dtype> {
  /** Bits per element; 4 and 6 for the packed sub-byte dtypes. */
  readonly bits: number;
  /** Typed array that shows the elements' bit patterns; two items per element for C64. */
  readonly data: TensorDataConstructor<D>;
}

/** Facts by name, in rank order. */
export const DTYPES: { readonly [D in Dtype]: DtypeInfo<D> } = Object.freeze({
  BOOL: { bits: 8, data: Uint8Array },
  F4: { bits: 4, data: Uint8Array },
  F6_E2M3: { bits: 6, data: Uint8Array },
  F6_E3M2: { bits: 6, data: Uint8Array },
  U8: { bits: 8, data: Uint8Array },
  I8: { bits: 8, data: Int8Array },
  F8_E5M2: { bits: 8, data: Uint8Array },
  F8_E4M3: { bits: 8, data: Uint8Array },
  F8_E8M0: { bits: 8, data: Uint8Array },
  F8_E4M3FNUZ: { bits: 8, data: Uint8Array },
  F8_E5M2FNUZ: { bits: 8, data: Uint8Array },
  I16: { bits: 16, data: Int16Array },
  U16: { bits: 16, data: Uint16Array },
  F16: { bits: 16, data: Uint16Array },
  BF16: { bits: 16, data: Uint16Array },
  I32: { bits: 32, data: Int32Array },
  U32: { bits: 32, data: Uint32Array },
  F32: { bits: 32, data: Float32Array },
  C64: { bits: 64, data: Float32Array },
  F64: { bits: 64, data: Float64Array },
  I64: { bits: 64, data: BigInt64Array },
  U64: { bits: 64, data: BigUint64Array },
});

for (const facts of Object.values(DTYPES)) Object.freeze(facts);

/** Names in rank order; the index of a name is the dtype's rank and its code in a parsed header. */
export const DTYPE_NAMES: readonly Dtype[] = Object.freeze(Object.keys(DTYPES) as Dtype[]);

/** Bits of an element by the dtype's rank. */
export const DTYPE_BITS: readonly number[] = DTYPE_NAMES.map((name) => DTYPES[name].bits);

/** Throws `SAFETENSORS_BIG_ENDIAN_HOST` where numbers have their high byte first. */
export function requireLittleEndianHost(path?: string): void {
  if (new Uint8Array(Uint16Array.of(1).buffer)[0] === 1) return;
  const message = 'safetensors files are little endian, and this machine is not';
  throw new SafetensorsError('SAFETENSORS_BIG_ENDIAN_HOST', message, { path });
}
