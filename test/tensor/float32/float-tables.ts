/** The oracles' tables of conversions. */
import { readFileSync } from 'node:fs';
import { DTYPES, type Dtype } from '../../../src/header/dtype.js';

/** Conversions of one dtype to float32 as an oracle has them. */
export interface Float32Table {
  readonly dtype: Dtype;
  readonly oracle: string;
  readonly float32: string;
  readonly input?: string;
}

/** Conversions of the same samples to one dtype, a pattern for each. */
export interface PatternTable {
  readonly dtype: Dtype;
  readonly oracle: string;
  readonly patterns: string;
}

export const float32Folder: URL = new URL('../../fixtures/float32-tables/', import.meta.url);
export const patternFolder: URL = new URL('../../fixtures/from-float32-tables/', import.meta.url);

const read = (folder: URL, name: string) => new Uint8Array(readFileSync(new URL(name, folder)));
const readJson = (folder: URL) =>
  JSON.parse(readFileSync(new URL('tables.json', folder), 'utf8')) as Record<string, unknown>;

export const float32Tables = readJson(float32Folder)['tables'] as Float32Table[];
export const patternTables = readJson(patternFolder)['tables'] as PatternTable[];

/** All patterns of a dtype, in order, one bit after the other, lowest first. */
function allPatterns(bits: number): Uint8Array {
  const bytes = new Uint8Array((2 ** bits * bits) / 8);
  for (let pattern = 0; pattern < 2 ** bits; pattern++) {
    for (let bit = 0; bit < bits; bit++) {
      const at = pattern * bits + bit;
      bytes[at >> 3] = (bytes[at >> 3] as number) | (((pattern >> bit) & 1) << (at & 7));
    }
  }
  return bytes;
}

/** The packed elements of a table. */
export function inputOf({ dtype, input }: Float32Table): Uint8Array {
  return input === undefined ? allPatterns(DTYPES[dtype].bits) : read(float32Folder, input);
}

/** The oracle's results. */
export function expectedOf({ float32 }: Float32Table): Float32Array {
  return new Float32Array(read(float32Folder, float32).buffer);
}

/** The samples of the tables of patterns. */
export function sampleValues(): Float32Array {
  return new Float32Array(read(patternFolder, 'values.bin').buffer);
}

/** The oracle's results for the samples: a pattern per sample, not packed. */
export function expectedPatterns({ dtype, patterns }: PatternTable): number[] {
  const bytes = read(patternFolder, patterns);
  return [...(DTYPES[dtype].bits === 16 ? new Uint16Array(bytes.buffer) : bytes)];
}

/** The elements of packed bytes, each as its bit pattern. */
export function unpack(bytes: Uint8Array, bits: number): number[] {
  return Array.from({ length: (bytes.length * 8) / bits }, (_, i) => {
    let pattern = 0;
    for (let bit = 0; bit < bits; bit++) {
      const at = i * bits + bit;
      pattern |= (((bytes[at >> 3] as number) >> (at & 7)) & 1) << bit;
    }
    return pattern;
  });
}

/** The same bytes at another alignment. */
export function atByteOffset(bytes: Uint8Array, byteOffset: number): Uint8Array<ArrayBuffer> {
  const moved = new Uint8Array(byteOffset + bytes.length).subarray(byteOffset);
  moved.set(bytes);
  return moved;
}

/** Bit patterns of float32 values. */
export function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

/** Values whose bit patterns differ (all NaNs are the same), as index, value and expected value. */
export function differences(values: Float32Array, expected: Float32Array): number[][] {
  const [patterns, wantedPatterns] = [bitsOf(values), bitsOf(expected)];
  const found = values.length === expected.length ? [] : [[values.length, expected.length]];
  for (let i = 0; i < expected.length; i++) {
    if (patterns[i] === wantedPatterns[i]) continue;
    const [value, wanted] = [values[i] as number, expected[i] as number];
    if (!(Number.isNaN(value) && Number.isNaN(wanted))) found.push([i, value, wanted]);
  }
  return found;
}
