/** torch's dtypes and storage classes: the length of an element and the safetensors dtype. */

import type { Dtype } from '../../../header/dtype.js';

/** One of torch's dtypes. */
export interface TorchDtype {
  /** torch's name without the module. */
  readonly name: string;
  /** Bytes per element; an element of `float4_e2m1fn_x2` is two packed values. */
  readonly itemByteLength: number;
  /** The safetensors dtype; null if absent. */
  readonly dtype: Dtype | null;
}

const ROWS: readonly (readonly [name: string, itemByteLength: number, dtype: Dtype | null])[] = [
  ['float64', 8, 'F64'],
  ['float32', 4, 'F32'],
  ['float16', 2, 'F16'],
  ['bfloat16', 2, 'BF16'],
  ['float8_e4m3fn', 1, 'F8_E4M3'],
  ['float8_e4m3fnuz', 1, 'F8_E4M3FNUZ'],
  ['float8_e5m2', 1, 'F8_E5M2'],
  ['float8_e5m2fnuz', 1, 'F8_E5M2FNUZ'],
  ['float8_e8m0fnu', 1, 'F8_E8M0'],
  ['float4_e2m1fn_x2', 1, 'F4'],
  ['int64', 8, 'I64'],
  ['int32', 4, 'I32'],
  ['int16', 2, 'I16'],
  ['int8', 1, 'I8'],
  ['uint64', 8, 'U64'],
  ['uint32', 4, 'U32'],
  ['uint16', 2, 'U16'],
  ['uint8', 1, 'U8'],
  ['bool', 1, 'BOOL'],
  ['complex64', 8, 'C64'],
  ['complex128', 16, null],
  ['complex32', 4, null],
  ['qint8', 1, null],
  ['qint32', 4, null],
  ['quint8', 1, null],
  ['quint4x2', 1, null],
  ['quint2x4', 1, null],
  ['bits8', 1, null],
  ['bits16', 2, null],
  ['bits1x8', 1, null],
  ['bits2x4', 1, null],
  ['bits4x2', 1, null],
  ...['int', 'uint'].flatMap((kind) =>
    [1, 2, 3, 4, 5, 6, 7].map((bits) => [`${kind}${bits}`, 1, null] as const),
  ),
];

/** The dtypes by torch's names. */
export const TORCH_DTYPES: ReadonlyMap<string, TorchDtype> = new Map(
  ROWS.map(([name, itemByteLength, dtype]) => [name, { name, itemByteLength, dtype }]),
);

/** The dtypes of the typed storages: `Float` stands for `FloatStorage`. */
const STORAGE_DTYPES: readonly (readonly [kind: string, dtype: string])[] = [
  ['Double', 'float64'],
  ['Float', 'float32'],
  ['Half', 'float16'],
  ['BFloat16', 'bfloat16'],
  ['Long', 'int64'],
  ['Int', 'int32'],
  ['Short', 'int16'],
  ['Char', 'int8'],
  ['Byte', 'uint8'],
  ['Bool', 'bool'],
  ['ComplexDouble', 'complex128'],
  ['ComplexFloat', 'complex64'],
  ['QInt8', 'qint8'],
  ['QInt32', 'qint32'],
  ['QUInt8', 'quint8'],
  ['QUInt4x2', 'quint4x2'],
  ['QUInt2x4', 'quint2x4'],
];

/** The dtype of each storage class. */
export const STORAGE_CLASSES: ReadonlyMap<string, TorchDtype> = new Map(
  STORAGE_DTYPES.map(([kind, name]) => [`${kind}Storage`, TORCH_DTYPES.get(name) as TorchDtype]),
);

/** Tensor classes of torch before 0.4. */
export const OLD_TENSOR_CLASSES: readonly string[] = STORAGE_DTYPES.slice(0, 10).map(
  ([kind]) => `${kind}Tensor`,
);
