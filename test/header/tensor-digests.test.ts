/** Sums in metadata: their form and their place. */
import { describe, expect, it } from 'vitest';
import { layOut } from '../../src/header/header-writer.js';
import {
  DIGEST_DIGITS,
  DIGESTS_KEY,
  digestOf,
  digestsPosition,
  digestsProblem,
} from '../../src/header/tensor-digests.js';

const digits = (digit: string): string => digit.repeat(DIGEST_DIGITS);

describe('the text of sums', () => {
  it('has 64 digits for each tensor', () => {
    expect(digestsProblem(digits('a') + digits('0'), 2)).toBeUndefined();
    expect(digestsProblem('', 0)).toBeUndefined();
  });

  it.each([
    ['too short', digits('a')],
    ['too long', digits('a').repeat(3)],
    ['upper case', digits('A').repeat(2)],
    ['empty', ''],
  ])('is wrong when it is %s', (_, text) => {
    expect(digestsProblem(text, 2)).toMatch(
      /^expected 64 hexadecimal digits for each of 2 tensors/,
    );
  });
});

describe('the sum of one tensor', () => {
  const context = { path: 'model.safetensors', tensor: 't' };
  const headerOf = (text: string, size: number) => ({
    metadata: new Map([[DIGESTS_KEY, text]]),
    size,
  });

  it('is cut from a text of the right length', () => {
    const text = digits('a') + digits('0');
    expect(digestOf(headerOf(text, 2), 1, context)).toBe(digits('0'));
    expect(digestOf({ metadata: new Map(), size: 2 }, 1, context)).toBeUndefined();
    const code = 'SAFETENSORS_CHECKSUM_MISMATCH';
    for (const bad of [digits('a'), digits('a') + digits('A')])
      expect(() => digestOf(headerOf(bad, 2), 1, context)).toThrow(
        expect.objectContaining({ code, message: expect.stringContaining('found') }),
      );
  });

  it('is found without reading those of all others', () => {
    const size = 100_000;
    const header = headerOf(digits('e').repeat(size), size);
    for (let entry = 0; entry < size; entry++) digestOf(header, entry, context);
    expect(digestOf(header, size - 1, context)).toBe(digits('e'));
  });
});

describe('the place of sums', () => {
  it('is behind its key, whatever other values and names look like it', () => {
    const metadata = { a: `"${DIGESTS_KEY}":"`, [DIGESTS_KEY]: 'old', z: 'ü' };
    const spec = { name: DIGESTS_KEY, dtype: 'U8', shape: [0], byteLength: 0 } as const;
    const { header } = layOut([spec], { metadata }, true);
    const at = digestsPosition(header);
    const text = new TextDecoder().decode(header.subarray(8));
    const value = JSON.parse(text).__metadata__[DIGESTS_KEY];
    expect(value).toBe(digits('0'));
    expect(new TextDecoder().decode(header.subarray(at - 2, at + DIGEST_DIGITS + 1))).toBe(
      `:"${value}"`,
    );
  });

  it('is not there without room: sums of other tensors are left out', () => {
    const { header } = layOut([], { metadata: { [DIGESTS_KEY]: digits('a'), b: 'c' } });
    expect(JSON.parse(new TextDecoder().decode(header.subarray(8)))).toEqual({
      __metadata__: { b: 'c' },
    });
  });
});
