/** Digests in metadata, compared with those that were found. */
import { expect, test } from 'vitest';
import { declaredDigests } from '../../../src/file/verification/declared-hashes.js';
import { runSync } from '../../../src/work/work.js';

const hexOf = (number: number): string => number.toString(16).padStart(64, '0');

test('digests of many tensors are compared in steps', () => {
  const count = 1000;
  const found = new Map(Array.from({ length: count }, (_, i) => [`t${i}`, hexOf(i)]));
  const digests = [...found.values()];
  const right = declaredDigests(digests.join(''), found);
  let yields = 0;
  let next = right.next();
  for (; next.done !== true; next = right.next()) yields++;
  expect(yields).toBe(4);
  expect(next.value).toMatchObject([{ ok: true, found: `${count} digests of tensors` }]);
  digests[500] = hexOf(7);
  expect(runSync(declaredDigests(digests.join(''), found))).toMatchObject([
    { ok: false, tensor: 't500', declared: hexOf(7), found: hexOf(500) },
  ]);
});
