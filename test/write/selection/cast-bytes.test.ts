import { describe, expect, it } from 'vitest';
import '../../../src/platform/addon/addon.js';
import { castInTypeScript } from '../../../src/tensor/float32/cast.js';
import type { AsyncFill } from '../../../src/tensor/storage/computed.js';
import { CastMemory, castFill } from '../../../src/write/selection/cast-bytes.js';

const values = Float64Array.from({ length: 100_003 }, (_, i) =>
  i % 10_000 === 1 ? 70_000 : Math.sin(i) * 100,
);
const casts = [
  { from: 'F64', to: 'F16', bytes: new Uint8Array(values.buffer), size: 2 },
  { from: 'F32', to: 'BF16', bytes: new Uint8Array(Float32Array.from(values).buffer), size: 2 },
  { from: 'BF16', to: 'F32', bytes: new Uint8Array(values.buffer, 0, 70_002), size: 4 },
  { from: 'F16', to: 'F8_E5M2', bytes: new Uint8Array(values.buffer, 0, 70_002), size: 1 },
] as const;

describe.each([false, true])('of bytes that come later: %s', (isLate) => {
  const fillOf =
    (bytes: Uint8Array, asked: number[]): AsyncFill =>
    (target, begin) => {
      asked.push(begin);
      const fill = (): void => target.set(bytes.subarray(begin, begin + target.length));
      if (!isLate) return fill();
      return new Promise((resolve) => setTimeout(() => resolve(fill()), Math.random() * 4));
    };

  it.each(casts)('$from to $to: all at once', async ({ from, to, bytes }) => {
    const counts: number[] = [];
    const add = (count: number): void => void counts.push(count);
    const cast = castFill(fillOf(bytes, []), { from, to }, new CastMemory(), add);
    const expected = new Uint8Array(expectedLength(from, to, bytes));
    const tooLarge = castInTypeScript(from, to, bytes, expected);
    const result = new Uint8Array(expected.length);
    await cast(result, 0);
    expect(Buffer.compare(result, expected)).toBe(0);
    expect(counts).toEqual(tooLarge === 0 ? [] : [tooLarge]);
  });

  it.each(casts)('$from to $to: by pieces, many at once', async ({ from, to, bytes, size }) => {
    let found = 0;
    const add = (count: number): void => {
      found += count;
    };
    const asked: number[] = [];
    const cast = castFill(fillOf(bytes, asked), { from, to }, new CastMemory(), add);
    const expected = new Uint8Array(expectedLength(from, to, bytes));
    const tooLarge = castInTypeScript(from, to, bytes, expected);
    const result = new Uint8Array(expected.length);
    const pieces: (void | Promise<void>)[] = [];
    for (let begin = 0, step = size; begin < result.length; ) {
      const part = result.subarray(begin, begin + step);
      pieces.push(cast(part, begin));
      begin += part.length;
      step = (step * 3) % (4099 * size);
    }
    await Promise.all(pieces);
    expect(Buffer.compare(result, expected)).toBe(0);
    expect(found).toBe(tooLarge);
    expect(asked).toEqual(asked.toSorted((a, b) => a - b));
  });
});

it('uses memory again', async () => {
  const memory = new Set<ArrayBufferLike>();
  const fill = (target: Uint8Array): void => void memory.add(target.buffer);
  const cast = castFill(fill, { from: 'F32', to: 'F16' }, new CastMemory(), () => {});
  for (let begin = 0; begin < 80; begin += 8) await cast(new Uint8Array(8), begin);
  expect(memory.size).toBe(1);
});

it('passes on what goes wrong', async () => {
  const fill = (): never => {
    throw new Error('cut short');
  };
  const cast = castFill(fill, { from: 'F32', to: 'F16' }, new CastMemory(), () => {});
  await expect(cast(new Uint8Array(8), 0)).rejects.toThrow('cut short');
});

function expectedLength(
  from: 'F64' | 'F32' | 'F16' | 'BF16',
  to: 'F32' | 'F16' | 'BF16' | 'F8_E5M2',
  bytes: Uint8Array,
): number {
  const lengths = { F64: 8, F32: 4, F16: 2, BF16: 2, F8_E5M2: 1 };
  return (bytes.length / lengths[from]) * lengths[to];
}
