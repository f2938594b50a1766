import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { type HashKey, hashString, processHashKey } from '../../../src/header/json/key-hash.js';
import { JsonReader } from '../../../src/header/json/reader.js';
import { anyText } from '../../support/any-text.js';

const encoder = new TextEncoder();

/** HalfSipHash as its authors describe it, in 64-bit arithmetic and with any number of rounds. */
function halfSipHash(text: Uint8Array, key: HashKey, rounds: number, finalRounds: number): number {
  const mask = 0xffffffffn;
  const rotate = (x: bigint, n: bigint): bigint => ((x << n) | (x >> (32n - n))) & mask;
  const [k0, k1] = key.map((half) => BigInt(half) & mask) as [bigint, bigint];
  let [v0, v1, v2, v3] = [k0, k1, 0x6c796765n ^ k0, 0x74656462n ^ k1];
  const round = (): void => {
    v0 = (v0 + v1) & mask;
    v1 = rotate(v1, 5n) ^ v0;
    v0 = rotate(v0, 16n);
    v2 = (v2 + v3) & mask;
    v3 = rotate(v3, 8n) ^ v2;
    v0 = (v0 + v3) & mask;
    v3 = rotate(v3, 7n) ^ v0;
    v2 = (v2 + v1) & mask;
    v1 = rotate(v1, 13n) ^ v2;
    v2 = rotate(v2, 16n);
  };
  const padded = new Uint8Array((text.length & ~3) + 4);
  padded.set(text);
  padded[padded.length - 1] = text.length;
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += 4) {
    const word = BigInt(view.getUint32(at, true));
    v3 ^= word;
    for (let i = 0; i < rounds; i++) round();
    v0 ^= word;
  }
  v2 ^= 0xffn;
  for (let i = 0; i < finalRounds; i++) round();
  return Number(v1 ^ v3);
}

function hashOf(json: string, key: HashKey): number {
  const reader = new JsonReader(encoder.encode(json));
  return hashString(reader, reader.readString(), key);
}

const anyKey = fc.tuple(fc.integer(), fc.integer());
const someText = anyText({ maxLength: 40 });

describe('hashString', () => {
  test('the model it is compared with gives the published values of HalfSipHash-2-4', () => {
    const key: HashKey = [0x03020100, 0x07060504];
    const little = (bytes: number[]): number =>
      new DataView(Uint8Array.from(bytes).buffer).getUint32(0, true);
    expect(halfSipHash(new Uint8Array(0), key, 2, 4)).toBe(little([0xa9, 0x35, 0x9f, 0x5b]));
    expect(halfSipHash(Uint8Array.of(0), key, 2, 4)).toBe(little([0x27, 0x47, 0x5a, 0xb8]));
  });

  test('is HalfSipHash-1-3 of the decoded bytes', () => {
    fc.assert(
      fc.property(someText, anyKey, (text, key) => {
        expect(hashOf(JSON.stringify(text), key)).toBe(
          halfSipHash(encoder.encode(text), key, 1, 3),
        );
      }),
    );
  });

  test('is the same for every spelling of a text', () => {
    fc.assert(
      fc.property(someText, anyKey, (text, key) => {
        const units = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
        const escaped = units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`);
        expect(hashOf(`"${escaped.join('')}"`, key)).toBe(hashOf(JSON.stringify(text), key));
      }),
    );
  });
});

test('the key of a process stays the same, and is another one for long headers', () => {
  expect(processHashKey(1000)).toBe(processHashKey(2000));
  expect(processHashKey(1_000_000)).toBe(processHashKey(2_000_000));
  expect(processHashKey(1000)).not.toEqual(processHashKey(1_000_000));
  expect(processHashKey(256 * 1024 - 1)).toBe(processHashKey(0));
  expect(processHashKey(256 * 1024)).toBe(processHashKey(1_000_000));
  for (const length of [1000, 1_000_000]) {
    expect(new Set(processHashKey(length)).size).toBe(2);
    for (const word of processHashKey(length)) expect(word).toBe(word | 0);
  }
});

describe('the key of a new process', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  test('has two words of 32 random bits', async () => {
    vi.resetModules();
    const { processHashKey: newKey } = await import('../../../src/header/json/key-hash.js');
    vi.spyOn(Math, 'random').mockReturnValueOnce(0.3).mockReturnValueOnce(0.8);
    expect(newKey(1000)).toEqual([1288490188, -858993460]);
    expect(newKey(1000)).toEqual([1288490188, -858993460]);
  });

  test('is from Web Crypto for long headers, which is asked once for two words', async () => {
    vi.resetModules();
    const { processHashKey: newKey } = await import('../../../src/header/json/key-hash.js');
    const random = vi.spyOn(crypto, 'getRandomValues').mockImplementation((words) => {
      expect(words).toEqual(new Int32Array(2));
      (words as Int32Array<ArrayBuffer>).set([7, -8]);
      return words;
    });
    expect(newKey(1_000_000)).toEqual([7, -8]);
    expect(newKey(1_000_000)).toEqual([7, -8]);
    expect(random).toHaveBeenCalledTimes(1);
  });
});
