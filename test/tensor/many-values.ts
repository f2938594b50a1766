/** A tensor with more values than a conversion takes at once. */
import type { Entry } from '../support/make-file.js';

/** More values than two windows of either size have, and no multiple of them. */
export const MANY = 2 ** 21 + 12;

/** The products of the numbers from 1 on and an odd one: any bytes at all. */
const SCRAMBLED = new Uint32Array(MANY / 2);
for (let i = 0; i < SCRAMBLED.length; i++) SCRAMBLED[i] = Math.imul(i + 1, 2_654_435_761);

export function scrambledBytes(length: number): Uint8Array {
  return new Uint8Array(SCRAMBLED.buffer, 0, length);
}

export const LARGE: readonly Entry[] = [
  { name: 't', dtype: 'BF16', shape: [MANY], bytes: scrambledBytes(2 * MANY) },
];
