/** Sizes at the ends of 64 bits. No such file can exist, so only the length of its data is given. */
import { describe, expect, test } from 'vitest';
import { type Header, scanHeader } from '../../src/header/header.js';
import { runSync } from '../../src/work/work.js';
import { thrownBy } from './header-files.js';

function scan(dtype: string, shape: string, end: bigint | number): Header {
  const fields = `"dtype":"${dtype}","shape":${shape},"data_offsets":[0,${end}]`;
  return runSync(scanHeader(new TextEncoder().encode(`{"t":{${fields}}}`), Number(end), {}));
}

/** Their product is 2^64 - 1. */
const FACTORS = '3,5,17,257,641,65537,6700417';
const PRODUCT = 2n ** 64n - 1n;

test.each([
  ['U8', `[${2 ** 51}]`, 2 ** 51],
  ['U8', `[2,${2 ** 50}]`, 2 ** 51],
  ['F4', '[9007199254740990]', 4503599627370495],
  ['U64', '[1125899906842623]', 9007199254740984],
  ['U8', '[9007199254740991]', 9007199254740991],
  ['U8', `[${FACTORS},0]`, 0],
  ['U8', `[0,${FACTORS},2]`, 0],
  ['U8', '[1,1,9007199254740991,1]', 9007199254740991],
])('%s of shape %s is counted exactly', (dtype, shape, end) => {
  const header = scan(dtype, shape, end);
  expect(header.end(0)).toBe(end);
  expect(header.shape(0)).toEqual(JSON.parse(shape));
});

const elements = 'the product of its dimensions is larger';
describe('an overflow says what is too large', () => {
  test.each([
    ['U8', `[${FACTORS}]`, `${PRODUCT} elements of U8 is larger`],
    ['U8', `[${FACTORS},2]`, elements],
    ['U8', `[2,${FACTORS}]`, elements],
    ['F4', '[4294967296,4294967296]', elements],
    ['F4', '[4294967296,4294967296,0]', elements],
    ['U8', '[4294967296,536870912]', '2305843009213693952 elements of U8 is larger'],
  ])('%s of shape %s', (dtype, shape, what) => {
    expect(thrownBy(() => scan(dtype, shape, 8))).toMatchObject({
      code: 'SAFETENSORS_VALIDATION_OVERFLOW',
      tensor: 't',
      message: expect.stringContaining(`expected a size below 2^64 bits, but ${what}`),
    });
  });

  test('below that only the length is wrong', () => {
    expect(thrownBy(() => scan('U8', '[4294967295,536870912]', 8))).toMatchObject({
      code: 'SAFETENSORS_TENSOR_INVALID_INFO',
    });
  });
});

test('a wrong length is told in bytes, wherever the tensor begins', () => {
  const tensors =
    '"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},' +
    '"b":{"dtype":"U8","shape":[3],"data_offsets":[4,9]}';
  const json = new TextEncoder().encode(`{${tensors}}`);
  expect(thrownBy(() => runSync(scanHeader(json, 9, {})))).toMatchObject({
    message: expect.stringContaining(
      'expected 3 bytes for 3 elements of U8, but data_offsets is [4, 9], 5 bytes',
    ),
  });
});

test('an end before the begin is told', () => {
  const json = new TextEncoder().encode(
    '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,3]}}',
  );
  expect(thrownBy(() => runSync(scanHeader(json, 4, {})))).toMatchObject({
    code: 'SAFETENSORS_INVALID_OFFSET',
    message: expect.stringContaining('expected to end at or after its begin'),
  });
});

test.each([
  [3, /found 3: the file is incomplete$/],
  [6, /found 6$/],
])('of five bytes of data %i are there', (dataByteLength, message) => {
  const json = new TextEncoder().encode('{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}');
  expect(thrownBy(() => runSync(scanHeader(json, dataByteLength, {})))).toMatchObject({
    code: 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
    message: expect.stringMatching(message),
  });
});
