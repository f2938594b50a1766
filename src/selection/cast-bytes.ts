/** A tensor's bytes as another dtype: cast when they are asked for, each window for itself. */

import type { Cast } from '../float32/cast.js';
import { cast as castElements } from '../float32/kernels.js';
import { DTYPES, type Dtype } from '../format/dtype.js';
import { MadeStorage, type StorageBytes } from '../storage/made.js';

/** Bytes that are copied and then cast; they stay in a cache. A multiple of every element's length. */
const BLOCK_BYTE_LENGTH = 2 ** 18;

/** Length of so many elements of a dtype that has whole bytes. */
export function byteLengthOf(dtype: Dtype, elementCount: number): number {
  return (elementCount * DTYPES[dtype].bits) / 8;
}

/**
 * The bytes of a tensor after a cast.
 *
 * @param onTooLarge hears of elements that were too large for the dtype, as `castInTypeScript` counts them,
 *   whenever they are made
 */
export function castBytes(
  source: StorageBytes,
  { from, to }: Cast,
  onTooLarge: (count: number) => void,
): StorageBytes {
  const { storage, begin } = source;
  const [sourceBytes, targetBytes] = [byteLengthOf(from, 1), byteLengthOf(to, 1)];
  const byteLength = (source.byteLength / sourceBytes) * targetBytes;
  const isCopied = storage.readInto !== undefined;

  const castTo = (target: Uint8Array, first: number, block: Uint8Array): number => {
    const position = begin + first * sourceBytes;
    const length = (target.length / targetBytes) * sourceBytes;
    const bytes = isCopied
      ? block.subarray(0, length)
      : storage.window(position, position + length);
    if (isCopied) storage.readInto?.(bytes, position);
    return castElements(from, to, bytes, target);
  };

  const fill = (target: Uint8Array, position: number): void => {
    const wanted = Math.ceil((target.length / targetBytes) * sourceBytes);
    const block = new Uint8Array(isCopied ? Math.min(BLOCK_BYTE_LENGTH, wanted + sourceBytes) : 0);
    const blockLength = isCopied ? Math.floor(block.length / sourceBytes) : target.length;
    let tooLarge = 0;
    for (let done = 0; done < target.length; ) {
      const first = Math.floor((position + done) / targetBytes);
      const skipped = (position + done) % targetBytes;
      const count = Math.min(Math.floor((target.length - done) / targetBytes), blockLength);
      if (skipped === 0 && count > 0) {
        const end = done + count * targetBytes;
        tooLarge += castTo(target.subarray(done, end), first, block);
        done = end;
        continue;
      }
      // A part of an element, which counts with its last byte.
      const element = new Uint8Array(targetBytes);
      const found = castTo(element, first, block);
      const part = element.subarray(skipped, skipped + target.length - done);
      target.set(part, done);
      done += part.length;
      if (skipped + part.length === targetBytes) tooLarge += found;
    }
    if (tooLarge > 0) onTooLarge(tooLarge);
  };
  return { storage: new MadeStorage(byteLength, source, fill), begin: 0, byteLength };
}
