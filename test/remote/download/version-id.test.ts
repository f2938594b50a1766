import { expect, it } from 'vitest';
import { versionOf } from '../../../src/remote/download/version-id.js';
import type { HttpFile } from '../../../src/remote/http-file.js';

const BASE = 'https://store.example/models/a.safetensors';

function versionAt(query: string, facts: object = {}, given?: string): string | null {
  const version = { total: 10, tag: '"1"', modified: undefined, commit: undefined, ...facts };
  const file = { url: new URL(BASE + query), version } as unknown as HttpFile;
  return versionOf(file, 'a.safetensors', given);
}

it.each([
  ['?X-Amz-Date=1&X-Amz-Signature=2', '?X-Amz-Date=3&X-Amz-Signature=4&X-Amz-Security-Token=5'],
  ['?generation=7&X-Goog-Signature=1', '?generation=7&X-Goog-Signature=2&X-Goog-Expires=9'],
  ['?sv=1&se=2&sr=b&sp=r&sig=a%2Fb', '?sv=1&st=0&se=3&sr=b&sp=r&skoid=1&sig=c'],
  ['?Expires=1&Signature=a&Key-Pair-Id=K', '?Policy=p&Signature=b&Key-Pair-Id=L'],
  ['?x-oss-date=1&x-oss-signature=2', '?x-oss-date=2&x-oss-signature=3'],
  ['?q-ak=1&q-signature=2', '?q-ak=1&q-signature=3'],
])('is the same with a new signature: %s, %s', (first, second) => {
  expect(versionAt(first)).toBe(versionAt(second));
  expect(versionAt(`${first}&versionId=1`)).not.toBe(versionAt(`${second}&versionId=2`));
});

it.each([
  ['?file=a', '?file=b'],
  ['?file=a', ''],
  ['?a=1&b=2', '?b=2&a=1'],
  ['?file=a&file=b', '?file=b&file=a'],
  // Names that signatures use, without one.
  ['?sp=1', '?sp=2'],
  ['?Expires=1', '?Expires=2'],
  ['?file=a&sig=1&X-Amz-Date=1', '?file=b&sig=1&X-Amz-Date=1'],
  ['?x-oss-process=small&x-oss-signature=1', '?x-oss-process=large&x-oss-signature=1'],
  ['?%66ile=a', '?%66ile=b'],
  ['?file=a%', '?file=b%'],
])('is another one: %s, %s', (first, second) => {
  expect(versionAt(first)).not.toBe(versionAt(second));
});

it('is another one with another ETag, length or date; none without a strong ETag', () => {
  const all = [
    {},
    { tag: '"2"' },
    { total: 11 },
    { modified: 'Sun, 01 Nov 2026 00:00:00 GMT' },
    { commit: 'a'.repeat(40) },
  ].map((facts) => versionAt('', facts));
  expect(new Set(all).size).toBe(5);
  expect(versionAt('', { tag: 'W/"1"' })).toBe(null);
  expect(versionAt('', { tag: undefined })).toBe(null);
});

it('is what the caller gives, with the length', () => {
  expect(versionAt('?file=a', {}, 'v1')).toBe(versionAt('?file=b', { tag: 'W/"2"' }, 'v1'));
  expect(versionAt('', {}, 'v1')).not.toBe(versionAt('', {}, 'v2'));
  expect(versionAt('', {}, 'v1')).not.toBe(versionAt('', { total: 11 }, 'v1'));
});

it('shows nothing of the query', () => {
  expect(versionAt('?file=secret&sig=secret')).toMatch(/^[0-9a-f]{64}$/);
});
