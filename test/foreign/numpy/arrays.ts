/** NumPy arrays assembled by hand. */
import { writeFileSync } from 'node:fs';
import { temporaryPath } from '../../support/make-file.js';

/** The bytes of an `.npy` file: header text as it is, then the data. */
export function npy(
  header: string | Uint8Array,
  data: Uint8Array,
  version: readonly [number, number] = [1, 0],
): Buffer {
  const text = Buffer.from(header);
  const isWide = version[0] !== 1;
  const length = Buffer.alloc(isWide ? 4 : 2);
  if (isWide) length.writeUInt32LE(text.length);
  else length.writeUInt16LE(text.length);
  const magic = Buffer.from([0x93, ...Buffer.from('NUMPY'), ...version]);
  return Buffer.concat([magic, length, text, data]);
}

/** A usual header. */
export function headerOf(descr: string, shape: string, isFortran = false): string {
  const order = isFortran ? 'True' : 'False';
  return `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }\n`;
}

/** Writes a file that lives until the end of the test, and gives its path. */
export function written(bytes: Uint8Array, name = 'array.npy'): string {
  const path = temporaryPath(name);
  writeFileSync(path, bytes);
  return path;
}
