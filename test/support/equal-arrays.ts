/**
 * Typed arrays of equal bytes are equal at once: `toEqual` compares them element by element, which takes two
 * microseconds for each. All others go on to the comparison of `expect`, which finds and shows the difference.
 */
import { expect } from 'vitest';

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

expect.addEqualityTesters([
  (a: unknown, b: unknown): true | undefined => {
    if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b)) return undefined;
    return a.constructor === b.constructor && bytesOf(a).equals(bytesOf(b)) ? true : undefined;
  },
]);
