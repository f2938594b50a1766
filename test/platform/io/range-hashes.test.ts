/** Digests of ranges, however the bytes of the file are cut. */
import { createCipheriv, createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RangeHashes } from '../../../src/platform/io/range-hashes.js';
import { countedBytes } from '../../support/make-file.js';

const bytes = countedBytes(300);

const digestOf = (begin: number, end: number): string =>
  createHash('sha256').update(bytes.subarray(begin, end)).digest('hex');

const key = Uint8Array.from({ length: 16 }, (_, i) => i);

/** The GMAC of the bytes, with AES-128 and a nonce of zeros. */
function keyedHashOf(begin: number, end: number): string {
  const cipher = createCipheriv('aes-128-gcm', key, new Uint8Array(12));
  cipher.setAAD(bytes.subarray(begin, end));
  cipher.final();
  return cipher.getAuthTag().toString('hex');
}

describe('RangeHashes', () => {
  test('has the hashes of all ranges, keyed ones too, with gaps, without bytes, across pieces', () => {
    const lengths = fc.array(fc.tuple(fc.nat(2), fc.nat(40), fc.boolean()), { maxLength: 7 });
    fc.assert(
      fc.property(lengths, fc.array(fc.nat(40), { minLength: 1 }), (gapsAndLengths, pieces) => {
        let at = 0;
        const ranges = gapsAndLengths.map(([gap, length, isKeyed], i) => {
          const begin = at + gap;
          at = begin + length;
          return { name: `${i}`, begin, end: at, ...(isKeyed ? { key } : {}) };
        });
        const hashes = new RangeHashes(ranges);
        let taken = 0;
        for (let i = 0; taken < bytes.length; i++) {
          const end = taken + ((pieces[i % pieces.length] as number) || 1);
          hashes.add(bytes.subarray(taken, end));
          taken = end;
        }
        const expected = ranges.map(({ name, begin, end, key: own }) => [
          name,
          own === undefined ? digestOf(begin, end) : keyedHashOf(begin, end),
        ]);
        expect([...hashes.digests()]).toEqual(expected);
        expect(new TextDecoder().decode(hashes.text())).toBe(
          expected.map(([, hex]) => hex).join(''),
        );
      }),
    );
  });

  test('yields within a piece of many ranges', () => {
    const ranges = Array.from({ length: 300 }, (_, i) => ({ name: `${i}`, begin: i, end: i + 1 }));
    const work = new RangeHashes(ranges).addYielding(bytes);
    let yields = 0;
    for (let next = work.next(); next.done !== true; next = work.next()) yields++;
    expect(yields).toBe(4);
  });
});
