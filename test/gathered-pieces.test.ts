import fc from 'fast-check';
import { expect, test } from 'vitest';
import { gatherPieces } from '../src/gathered-pieces.js';

const MIB = 2 ** 20;

/** The pieces, all in the same memory, of which only one is there at a time. */
async function* pieces(
  lengths: readonly number[],
  ends: string[] = [],
): AsyncGenerator<Uint8Array> {
  const memory = new Uint8Array(Math.max(0, ...lengths));
  let value = 0;
  try {
    for (const length of lengths) {
      const piece = memory.subarray(0, length);
      for (let i = 0; i < length; i++) piece[i] = value++;
      yield piece;
    }
  } finally {
    ends.push('ended');
  }
}

async function gathered(
  lengths: readonly number[],
): Promise<{ lengths: number[]; isSame: boolean }> {
  const found: number[] = [];
  let value = 0;
  let isSame = true;
  const total = lengths.reduce((sum, length) => sum + length, 0);
  for await (const piece of gatherPieces(pieces(lengths), total)) {
    found.push(piece.byteLength);
    for (const byte of piece) isSame &&= byte === (value++ & 0xff);
  }
  return { lengths: found, isSame: isSame && value === total };
}

test.each([
  [[], []],
  [[0, 0, 1, 0], [1]],
  [[1, 2, 3], [6]],
  [[MIB], [MIB]],
  [Array.from({ length: 40 }, () => MIB / 16), [MIB, MIB, MIB / 2]],
  [
    [10, 2 * MIB, 10],
    [10, 2 * MIB, 10],
  ],
  [
    [MIB - 1, 2, 5],
    [MIB - 1, 7],
  ],
])('case %#', async (lengths, expected) => {
  expect(await gathered(lengths)).toEqual({ lengths: expected, isSame: true });
});

test('the bytes are the same, whatever the lengths', async () => {
  const length = fc.oneof(fc.nat(1000), fc.nat(MIB + 1000));
  await fc.assert(
    fc.asyncProperty(fc.array(length, { maxLength: 8 }), async (lengths) => {
      expect((await gathered(lengths)).isSame).toBe(true);
    }),
    { numRuns: 20 },
  );
}, 30_000);

test('whoever leaves early ends the stream, and its errors come through', async () => {
  const ends: string[] = [];
  for await (const _ of gatherPieces(pieces([MIB, MIB], ends), 2 * MIB)) break;
  expect(ends).toEqual(['ended']);
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(1);
    throw new Error('no more');
  }
  await expect(gatherPieces(failing(), 2).next()).rejects.toThrow('no more');
});
