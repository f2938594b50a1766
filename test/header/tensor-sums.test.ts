/** Sums in metadata: their form, their place, and one of them compared. */
import { describe, expect, it } from 'vitest';
import { layOut } from '../../src/header/header-writer.js';
import {
  SUM_DIGITS,
  SUMS_KEY,
  sumsPosition,
  sumsProblem,
  TensorSums,
} from '../../src/header/tensor-sums.js';

const digits = (digit: string): string => digit.repeat(SUM_DIGITS);

describe('TensorSums', () => {
  const sums = TensorSums.read(
    { metadata: new Map([[SUMS_KEY, digits('a') + digits('b')]]), size: 2 },
    'm.safetensors',
  );

  it('is null without the key', () => {
    expect(TensorSums.read({ metadata: null, size: 2 }, undefined)).toBeNull();
    expect(TensorSums.read({ metadata: new Map(), size: 2 }, undefined)).toBeNull();
  });

  it('compares the sum at the place of a tensor, and names file and tensor', () => {
    expect(() => sums?.require(1, digits('b'), 'w')).not.toThrow();
    expect(() => sums?.require(0, digits('b'), 'w')).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_CHECKSUM_MISMATCH',
        path: 'm.safetensors',
        tensor: 'w',
      }),
    );
  });

  it.each([
    ['too short', digits('a')],
    ['too long', digits('a').repeat(3)],
    ['upper case', digits('A').repeat(2)],
    ['empty', ''],
  ])('refuses text that is %s', (_, text) => {
    expect(sumsProblem(text, 2)).toMatch(/^expected 64 hexadecimal digits for each of 2 tensors/);
    expect(() => TensorSums.read({ metadata: new Map([[SUMS_KEY, text]]), size: 2 }, 'm')).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_CHECKSUM_MISMATCH', path: 'm' }),
    );
  });
});

describe('the place of sums', () => {
  it('is behind its key, whatever other values and names look like it', () => {
    const metadata = { a: `"${SUMS_KEY}":"`, [SUMS_KEY]: 'old', z: 'ü' };
    const spec = { name: SUMS_KEY, dtype: 'U8', shape: [0], byteLength: 0 } as const;
    const { header } = layOut([spec], { metadata }, true);
    const at = sumsPosition(header);
    const text = new TextDecoder().decode(header.subarray(8));
    const value = JSON.parse(text).__metadata__[SUMS_KEY];
    expect(value).toBe(digits('0'));
    expect(new TextDecoder().decode(header.subarray(at - 2, at + SUM_DIGITS + 1))).toBe(
      `:"${value}"`,
    );
  });

  it('is not there without room: sums of other tensors are left out', () => {
    const { header } = layOut([], { metadata: { [SUMS_KEY]: digits('a'), b: 'c' } });
    expect(JSON.parse(new TextDecoder().decode(header.subarray(8)))).toEqual({
      __metadata__: { b: 'c' },
    });
  });
});
