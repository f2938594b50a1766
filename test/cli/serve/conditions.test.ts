import { expect, it } from 'vitest';
import { requestedBytes } from '../../../src/cli/serve/conditions.js';

const TAG = '"a-1-z"';

/** The answer to a GET, in short: a status, and the range as `begin-end`. */
function answer(headers: Readonly<Record<string, string>>, byteLength = 100, method = 'GET') {
  const wanted = requestedBytes(method, headers, byteLength, TAG);
  if (!('range' in wanted)) return String(wanted.status);
  return `${wanted.status} ${wanted.range.begin}-${wanted.range.end}`;
}

it.each([
  ['bytes=0-0', '206 0-1'],
  ['bytes=0-99', '206 0-100'],
  ['bytes=10-19', '206 10-20'],
  ['bytes=99-99', '206 99-100'],
  ['bytes=10-', '206 10-100'],
  ['bytes=-10', '206 90-100'],
  ['bytes=-100', '206 0-100'],
  ['bytes=-101', '206 0-100'],
  ['bytes=10-1000', '206 10-100'],
  ['bytes=0-99999999999999999999999999', '206 0-100'],
  ['BYTES=0-0', '206 0-1'],
  [' bytes=0-0 ', '206 0-1'],
  ['bytes=100-', '416'],
  ['bytes=100-200', '416'],
  ['bytes=99999999999999999999999999-', '416'],
  ['bytes=-0', '416'],
  ['bytes=20-10', '416'],
  ['bytes=-', '416'],
  ['bytes=', '416'],
  ['bytes=0-1,5-6', '416'],
  ['bytes=0-1, bytes=5-6', '416'],
  ['bytes=a-b', '416'],
  ['bytes=0x1-5', '416'],
  ['bytes=-1-5', '416'],
  ['bytes=1.5-5', '416'],
  ['bytes= 1-5', '416'],
  ['rows=0-1', '200 0-100'],
  ['', '200 0-100'],
])('the range %j gets %s', (range, expected) => {
  expect(answer({ range })).toBe(expected);
});

it('an empty file has no ranges', () => {
  for (const range of ['bytes=0-', 'bytes=0-0', 'bytes=-1']) {
    expect(answer({ range }, 0)).toBe('416');
  }
  expect(answer({}, 0)).toBe('200 0-0');
});

it('ranges of files beyond 2^32 bytes are exact', () => {
  const byteLength = 100e9 + 93;
  expect(answer({ range: 'bytes=99999999999-' }, byteLength)).toBe('206 99999999999-100000000093');
});

it('HEAD ignores a range', () => {
  expect(answer({ range: 'bytes=5-6' }, 100, 'HEAD')).toBe('200 0-100');
  expect(answer({ range: 'bytes=100-' }, 100, 'HEAD')).toBe('200 0-100');
});

it.each([
  [{ 'if-match': TAG }, '200 0-100'],
  [{ 'if-match': '*' }, '200 0-100'],
  [{ 'if-match': `"other", ${TAG}` }, '200 0-100'],
  [{ 'if-match': `W/"other",${TAG}` }, '200 0-100'],
  [{ 'if-match': '"other"' }, '412'],
  [{ 'if-match': `W/${TAG}` }, '412'],
  [{ 'if-match': TAG.slice(1) }, '412'],
  [{ 'if-match': `x${TAG}` }, '412'],
  [{ 'if-match': `"a${TAG}` }, '412'],
  [{ 'if-match': '' }, '412'],
  [{ 'if-match': '"other"', range: 'bytes=0-1' }, '412'],
  [{ 'if-match': '"other"', 'if-none-match': TAG }, '412'],
  [{ 'if-match': '"other"', 'if-range': TAG, range: 'bytes=0-1' }, '412'],
  [{ 'if-match': TAG, range: 'bytes=0-1' }, '206 0-2'],
  [{ 'if-match': TAG, range: 'bytes=100-' }, '416'],
  [{ 'if-none-match': TAG }, '304'],
  [{ 'if-none-match': `W/${TAG}` }, '304'],
  [{ 'if-none-match': '*' }, '304'],
  [{ 'if-none-match': '"other"', range: 'bytes=0-1' }, '206 0-2'],
  [{ 'if-range': TAG, range: 'bytes=0-1' }, '206 0-2'],
  [{ 'if-range': '"other"', range: 'bytes=0-1' }, '200 0-100'],
  [{ 'if-range': '"other"', range: 'bytes=100-' }, '200 0-100'],
  [{ 'if-range': `W/${TAG}`, range: 'bytes=0-1' }, '200 0-100'],
  [{ 'if-range': 'Fri, 27 Nov 2026 10:00:00 GMT', range: 'bytes=0-1' }, '200 0-100'],
] as const)('%j gets %s', (headers, expected) => {
  expect(answer(headers)).toBe(expected);
});
