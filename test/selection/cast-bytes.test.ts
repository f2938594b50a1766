import { describe, expect, it } from 'vitest';
import '../../src/addon/addon.js';
import { castInTypeScript } from '../../src/float32/cast.js';
import { castBytes } from '../../src/selection/cast-bytes.js';
import { MadeStorage, type StorageBytes } from '../../src/storage/made.js';
import { MemoryStorage } from '../../src/storage/memory.js';

const MAX = 2 ** 32;

/** Bytes in memory, or of a storage that copies, not from the start of it. */
function sourceOf(bytes: Uint8Array, isCopied: boolean): StorageBytes {
  const moved = new Uint8Array(3 + bytes.length);
  moved.set(bytes, 3);
  const source = { storage: new MemoryStorage(moved, MAX), begin: 3, byteLength: bytes.length };
  if (!isCopied) return source;
  const fill = (target: Uint8Array, position: number): void => {
    target.set(moved.subarray(3 + position, 3 + position + target.length));
  };
  return { ...source, storage: new MadeStorage(bytes.length, source, fill), begin: 0 };
}

const values = Float64Array.from({ length: 100_003 }, (_, i) =>
  i % 10_000 === 1 ? 70_000 : Math.sin(i) * 100,
);
const casts = [
  { from: 'F64', to: 'F16', bytes: new Uint8Array(values.buffer) },
  { from: 'F32', to: 'BF16', bytes: new Uint8Array(Float32Array.from(values).buffer) },
  { from: 'BF16', to: 'F32', bytes: new Uint8Array(values.buffer, 0, 70_002) },
  { from: 'F16', to: 'F8_E5M2', bytes: new Uint8Array(values.buffer, 0, 70_002) },
] as const;

describe.each([false, true])('of a storage that copies: %s', (isCopied) => {
  it.each(casts)('$from to $to: all at once', ({ from, to, bytes }) => {
    const counts: number[] = [];
    const cast = castBytes(sourceOf(bytes, isCopied), { from, to }, (count) => counts.push(count));
    const expected = new Uint8Array(cast.byteLength);
    const tooLarge = castInTypeScript(from, to, bytes, expected);
    const window = cast.storage.window(0, cast.byteLength);
    expect(Buffer.compare(window, expected)).toBe(0);
    expect(counts).toEqual(tooLarge === 0 ? [] : [tooLarge]);
  });

  it.each(casts)('$from to $to: by windows that cut elements', ({ from, to, bytes }) => {
    let found = 0;
    const add = (count: number): void => {
      found += count;
    };
    const cast = castBytes(sourceOf(bytes, isCopied), { from, to }, add);
    const expected = new Uint8Array(cast.byteLength);
    const tooLarge = castInTypeScript(from, to, bytes, expected);
    const result = new Uint8Array(cast.byteLength);
    for (let begin = 0, step = 1; begin < result.length; begin += step, step = (step * 3) % 4099) {
      const part = result.subarray(begin, begin + step);
      cast.storage.readInto?.(part, begin);
    }
    expect(Buffer.compare(result, expected)).toBe(0);
    expect(found).toBe(tooLarge);
  });
});

it('is closed with its source', () => {
  const source = sourceOf(new Uint8Array(8), false);
  const cast = castBytes(source, { from: 'F32', to: 'F16' }, () => {});
  expect([cast.byteLength, cast.storage.closed]).toEqual([4, false]);
  source.storage.close(false);
  expect(() => cast.storage.window(0, 4)).toThrow(/closed/);
});
