import { expect, test } from 'vitest';
import { DTYPE_NAMES, DTYPES, type Dtype } from '../../src/header/dtype.js';
import { dtypeOfOtherName } from '../../src/header/dtype-names.js';
import { readSpec } from '../../src/header/tensor-spec.js';

test.each([
  ['float32', 'F32'],
  ['torch.float32', 'F32'],
  ['np.float16', 'F16'],
  ['bfloat16', 'BF16'],
  ['f32', 'F32'],
  ['Float64', 'F64'],
  ['torch.long', 'I64'],
  ['bool_', 'BOOL'],
  ['torch.float8_e4m3fn', 'F8_E4M3'],
  ['float8_e8m0fnu', 'F8_E8M0'],
])('%s is %s', (name, dtype) => {
  expect(dtypeOfOtherName(name)).toBe(dtype);
  expect(() => readSpec('t', { dtype: name as Dtype, shape: [] })).toThrow(
    `tensor "t": expected the dtype to be one of ${DTYPE_NAMES.join(', ')}, found "${name}"; it is called ${dtype} here`,
  );
});

test.each([
  '',
  'toString',
  'constructor',
  '__proto__',
  'torch.',
  'string',
  'float128',
  'x.float32',
])('%j is no name of a dtype', (name) => {
  expect(dtypeOfOtherName(name)).toBeUndefined();
});

test('every dtype but the packed ones has another name', () => {
  const named = ['float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8'];
  const unsigned = ['uint64', 'uint32', 'uint16', 'uint8', 'bool', 'complex64'];
  const small = ['float8_e4m3fn', 'float8_e5m2', 'float8_e8m0fnu', 'float4_e2m1fn'];
  const rare = ['float8_e4m3fnuz', 'float8_e5m2fnuz', 'float6_e2m3fn', 'float6_e3m2fn'];
  const dtypes = [...named, ...unsigned, ...small, ...rare].map(dtypeOfOtherName);
  expect(dtypes.toSorted()).toEqual(Object.keys(DTYPES).toSorted());
});

test('dims are told to be called shape', () => {
  const spec = { dtype: 'F32', dims: [2] } as never;
  expect(() => readSpec('t', spec)).toThrow(
    'expected the shape to be an array, found undefined; it is called shape, not dims',
  );
});
