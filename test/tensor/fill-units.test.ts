/** Bytes of any place and alignment are those of whole units, whatever is computed at once. */
import { expect, test } from 'vitest';
import { type FillUnits, fillUnits } from '../../src/tensor/fill-units.js';

/** The byte at each position. */
const byteAt = (position: number): number => (position * 7 + 3) & 255;

test.each([
  [1, 1],
  [2, 3],
  [4, 2],
  [12, 1],
  [12, 4],
])('units of %i bytes, %i at once', (byteLength, atOnce) => {
  const computed: number[] = [];
  const fill: FillUnits = (first, count, bytes) => {
    expect(bytes.length).toBe(count * byteLength);
    expect(bytes.byteOffset % 4).toBe(0);
    expect(count).toBeLessThanOrEqual(atOnce);
    for (let unit = first; unit < first + count; unit++) computed.push(unit);
    for (let i = 0; i < bytes.length; i++) bytes[i] = byteAt(first * byteLength + i);
  };
  for (const offset of [0, 1, 4]) {
    for (let position = 0; position < 2 * byteLength + 2; position++) {
      for (let length = 0; length < 5 * byteLength + 3; length++) {
        const memory = new Uint8Array(length + 8);
        const target = memory.subarray(offset, offset + length);
        computed.length = 0;
        fillUnits(target, position, { byteLength, atOnce }, fill);
        expect([...target]).toEqual(Array.from(target, (_, i) => byteAt(position + i)));
        const around = [...memory.subarray(0, offset), ...memory.subarray(offset + length)];
        expect(around).toEqual(around.map(() => 0));
        // Every unit once, and no other.
        const first = Math.floor(position / byteLength);
        const count = length === 0 ? 0 : Math.ceil((position + length) / byteLength) - first;
        expect(computed).toEqual(Array.from({ length: count }, (_, i) => first + i));
      }
    }
  }
});
