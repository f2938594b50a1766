/** Names that numpy, torch and JAX give to dtypes, for hints in errors. */

import { DTYPES, type Dtype } from './dtype.js';

/** Without the prefix of a module, in lower case. */
const OTHER_NAMES: Readonly<Record<string, Dtype>> = {
  bool: 'BOOL',
  bool_: 'BOOL',
  uint8: 'U8',
  byte: 'U8',
  int8: 'I8',
  char: 'I8',
  int16: 'I16',
  short: 'I16',
  uint16: 'U16',
  float16: 'F16',
  half: 'F16',
  fp16: 'F16',
  bfloat16: 'BF16',
  int32: 'I32',
  int: 'I32',
  uint32: 'U32',
  float32: 'F32',
  float: 'F32',
  fp32: 'F32',
  complex64: 'C64',
  cfloat: 'C64',
  float64: 'F64',
  double: 'F64',
  int64: 'I64',
  long: 'I64',
  uint64: 'U64',
  float8_e5m2: 'F8_E5M2',
  float8_e4m3: 'F8_E4M3',
  float8_e4m3fn: 'F8_E4M3',
  float8_e8m0fnu: 'F8_E8M0',
  float8_e4m3fnuz: 'F8_E4M3FNUZ',
  float8_e5m2fnuz: 'F8_E5M2FNUZ',
  float6_e2m3fn: 'F6_E2M3',
  float6_e3m2fn: 'F6_E3M2',
  float4_e2m1fn: 'F4',
};

/** The dtype that another library calls by this name, such as `float32` or `torch.float32`. */
export function dtypeOfOtherName(name: string): Dtype | undefined {
  const bare = name.replace(/^(?:torch|np|numpy|jnp|jax\.numpy|ml_dtypes)\./, '');
  const upper = bare.toUpperCase();
  if (Object.hasOwn(DTYPES, upper)) return upper as Dtype;
  const lower = bare.toLowerCase();
  return Object.hasOwn(OTHER_NAMES, lower) ? OTHER_NAMES[lower] : undefined;
}

/** Torch's names of floating-point dtypes. */
export const TORCH_DTYPES: Readonly<Partial<Record<Dtype, string>>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  F8_E4M3: 'float8_e4m3fn',
  F8_E5M2: 'float8_e5m2',
};
