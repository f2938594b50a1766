/** Random numbers by their position: the same whatever is computed first, and in pieces of any length. */

import type { Draw } from './kernel.js';

const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;
const PARITY = 0x1bd11bda;

/** A key, and a block of the generator: two words of 32 bits. */
export type Words = readonly [number, number];

/** Threefry-2x32 of 20 rounds (Salmon et al. 2011), as in Random123 and JAX. */
export function threefry([key0, key1]: Words, [counter0, counter1]: Words): Words {
  const keys = [key0, key1, key0 ^ key1 ^ PARITY] as const;
  let a = (counter0 + key0) | 0;
  let b = (counter1 + key1) | 0;
  for (let group = 0; group < 5; group++) {
    for (let round = 0; round < 4; round++) {
      const rotation = ROTATIONS[(group % 2) * 4 + round] as number;
      a = (a + b) | 0;
      b = ((b << rotation) | (b >>> (32 - rotation))) ^ a;
    }
    a = (a + (keys[(group + 1) % 3] as number)) | 0;
    b = (b + (keys[(group + 2) % 3] as number) + group + 1) | 0;
  }
  return [a >>> 0, b >>> 0];
}

/** Keeps each element with the probability `density`. What is drawn depends on nothing but these arguments. */
export function seededDraw(seed: number, tensor: string, model: number, density: number): Draw {
  const key = keyOf(seed, tensor, model);
  const limit = Math.round(density * 2 ** 32);
  return {
    fill(first, kept) {
      let block: Words = [0, 0];
      let number = -1;
      for (let i = 0; i < kept.length; i++) {
        const position = first + i;
        const of = Math.floor(position / 2);
        if (of !== number) {
          number = of;
          block = threefry(key, [of >>> 0, Math.floor(of / 2 ** 32)]);
        }
        kept[i] = (block[position % 2] as number) < limit ? 1 : 0;
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
