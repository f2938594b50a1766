/** Makes small files for tests. */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { DTYPES, type Dtype } from './api.js';

export interface Entry {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Exactly the tensor's bytes; counted up from 1 when left out. */
  readonly bytes?: Uint8Array;
}

export interface FileOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  /** Spaces after the header, to place the data at an odd address for example. */
  readonly padding?: number;
}

function byteLengthOf({ dtype, shape }: Entry): number {
  return (shape.reduce((count, dimension) => count * dimension, 1) * DTYPES[dtype].bits) / 8;
}

/** A whole file, tensors in the order given. */
export function fileBytes(entries: readonly Entry[], options: FileOptions = {}): Uint8Array {
  const header = new Map<string, unknown>();
  if (options.metadata !== undefined) header.set('__metadata__', options.metadata);
  let end = 0;
  for (const entry of entries) {
    const begin = end;
    end += byteLengthOf(entry);
    const { dtype, shape } = entry;
    header.set(entry.name, { dtype, shape, data_offsets: [begin, end] });
  }
  const fields = [...header].map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  );
  const json = new TextEncoder().encode(`{${fields.join(',')}}${' '.repeat(options.padding ?? 0)}`);
  const file = new Uint8Array(8 + json.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  let position = 8 + json.length;
  for (const entry of entries) {
    const length = byteLengthOf(entry);
    file.set(entry.bytes ?? countedBytes(length), position);
    position += length;
  }
  return file;
}

/** 1, 2, 3 … modulo 256. */
export function countedBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const period = Math.min(length, 256);
  for (let i = 0; i < period; i++) bytes[i] = i + 1;
  for (let end = period; end < length; end *= 2) bytes.copyWithin(end, 0, end);
  return bytes;
}

let folder: string | undefined;

/** A path in a temporary folder that lives until the end of the test. */
export function temporaryPath(name: string): string {
  folder ??= mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  return join(folder, name);
}

afterEach(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  folder = undefined;
});

/** Writes a file that lives until the end of the test, and gives its path. */
export function writeTemporary(entries: readonly Entry[], options: FileOptions = {}): string {
  const path = temporaryPath('model.safetensors');
  writeFileSync(path, fileBytes(entries, options));
  return path;
}

/** A file with one U8 tensor `t` of zeros, in rows of 1 MiB, which takes no space on the disk. */
export function writeSparse(byteLength: number): string {
  const path = temporaryPath('sparse.safetensors');
  const shape = [byteLength / 2 ** 20, 2 ** 20];
  const json = JSON.stringify({ t: { dtype: 'U8', shape, data_offsets: [0, byteLength] } });
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(json)]));
  truncateSync(path, 8 + json.length + byteLength);
  return path;
}
