/** Files made in memory, and their headers, for the tests of the header. */
import { expect } from 'vitest';
import {
  type Header,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from '../../src/header/header.js';

/** The data of the cases, by their `buffer_rule`. */
export function dataBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 7 + 3) & 0xff);
}

/** The bytes of all parts. */
export function concatenate(parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** A file of that header and data. */
export function fileOf(header: string | Uint8Array, data: Uint8Array): Uint8Array {
  const json = typeof header === 'string' ? new TextEncoder().encode(header) : header;
  const prefix = new Uint8Array(PREFIX_BYTE_LENGTH);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(json.length), true);
  return concatenate([prefix, json, data]);
}

/** Reads the header of a whole file. */
export function parseFile(file: Uint8Array): Header {
  const length = readHeaderLength(file.subarray(0, 512), file.length);
  const json = file.slice(PREFIX_BYTE_LENGTH, PREFIX_BYTE_LENGTH + length);
  return parseHeader(json, file.length);
}

/** Names sorted by their bytes. */
export function keysOf(header: Header): string[] {
  return header.sortedNames();
}

/** Names in file order. */
export function offsetKeysOf(header: Header): string[] {
  return Array.from({ length: header.size }, (_, entry) => header.name(entry));
}

/** The error of an action. */
export function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  return expect.fail('nothing was thrown');
}
