/** Random numbers by their position: the same whatever is computed first, and in pieces of any length. */

import { selectDrawn } from '../../elements.js';
import type { Draw } from './kernel.js';

const PARITY = 0x1bd11bda;

/** A key, and a block of the generator: two words of 32 bits. */
export type Words = readonly [number, number];

/** Threefry-2x32 of 20 rounds (Salmon et al. 2011), as in Random123 and JAX. */
export function threefry(key: Words, counter: Words): Words {
  const block = new Uint32Array(2);
  fillBlock(key, counter[0], counter[1], block);
  return [block[0] as number, block[1] as number];
}

function fillBlock(key: Words, low: number, high: number, block: Uint32Array): void {
  // Each group of rounds ends with the next two of three keys.
  let [k0, k1] = key;
  let k2 = k0 ^ k1 ^ PARITY;
  let a = (low + k0) | 0;
  let b = (high + k1) | 0;
  for (let group = 1; group <= 5; group++) {
    if (group % 2 === 1) {
      a = (a + b) | 0;
      b = ((b << 13) | (b >>> 19)) ^ a;
      a = (a + b) | 0;
      b = ((b << 15) | (b >>> 17)) ^ a;
      a = (a + b) | 0;
      b = ((b << 26) | (b >>> 6)) ^ a;
      a = (a + b) | 0;
      b = ((b << 6) | (b >>> 26)) ^ a;
    } else {
      a = (a + b) | 0;
      b = ((b << 17) | (b >>> 15)) ^ a;
      a = (a + b) | 0;
      b = ((b << 29) | (b >>> 3)) ^ a;
      a = (a + b) | 0;
      b = ((b << 16) | (b >>> 16)) ^ a;
      a = (a + b) | 0;
      b = ((b << 24) | (b >>> 8)) ^ a;
    }
    a = (a + k1) | 0;
    b = (b + k2 + group) | 0;
    const next = k0;
    k0 = k1;
    k1 = k2;
    k2 = next;
  }
  block[0] = a;
  block[1] = b;
}

/** Keeps each element with the probability `density`. What is drawn depends on nothing but these arguments. */
export function seededDraw(seed: number, tensor: string, model: number, density: number): Draw {
  const key = keyOf(seed, tensor, model);
  const limit = Math.round(density * 2 ** 32);
  return {
    selection: selectDrawn(key, limit),
    fill(first, kept) {
      const block = new Uint32Array(2);
      // Two elements have a block.
      for (let i = -(first % 2); i < kept.length; i += 2) {
        const number = (first + i) / 2;
        fillBlock(key, number >>> 0, Math.floor(number / 2 ** 32), block);
        if (i >= 0) kept[i] = (block[0] as number) < limit ? 1 : 0;
        if (i + 1 < kept.length) kept[i + 1] = (block[1] as number) < limit ? 1 : 0;
      }
    },
  };
}

/** The key of a tensor: seed and model, then the bytes of the name, two words at a time. */
function keyOf(seed: number, tensor: string, model: number): Words {
  const name = new TextEncoder().encode(tensor);
  const padded = new DataView(new ArrayBuffer(Math.ceil((name.length + 1) / 8) * 8));
  for (const [i, byte] of name.entries()) padded.setUint8(i, byte);
  padded.setUint8(name.length, 1);
  let key = threefry([seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0], [model, 0]);
  for (let at = 0; at < padded.byteLength; at += 8) {
    key = threefry(key, [padded.getUint32(at, true), padded.getUint32(at + 4, true)]);
  }
  return key;
}
