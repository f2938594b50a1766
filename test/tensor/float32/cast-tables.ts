/** Casts in every way that there is, and what torch makes of the same elements. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { DTYPES, type Dtype } from '../../../src/header/dtype.js';
import { type Addon, type ConversionLevel, loadAddon } from '../../../src/platform/addon/load.js';
import {
  type CastSource,
  type CastTarget,
  castInTypeScript,
} from '../../../src/tensor/float32/cast.js';
import { convertToFloat32 } from '../../../src/tensor/float32/to-float32.js';

const loaded = loadAddon();
if (!('addon' in loaded)) throw new Error(loaded.reason);
export const addon: Addon = loaded.addon;

export const STORED_FOLDER: URL = new URL('../../fixtures/cast-tables/', import.meta.url);

export type Way = 'plain' | 'avx2' | 'TypeScript';

function hasLevel(level: ConversionLevel): boolean {
  try {
    addon.cast('F32', 'BF16', new Uint8Array(4), new Uint8Array(2), level);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOTSUP' });
    return false;
  }
}

export const ways: readonly Way[] = hasLevel('avx2')
  ? ['plain', 'avx2', 'TypeScript']
  : ['plain', 'TypeScript'];

export const bytesOf = (dtype: Dtype): number => DTYPES[dtype].bits / 8;

/** The elements cast, and how many were too large. */
export function castBy(
  way: Way,
  from: CastSource,
  to: CastTarget,
  bytes: Uint8Array,
  byteOffset = 0,
): [Uint8Array, number] {
  const length = (bytes.length / bytesOf(from)) * bytesOf(to);
  const output = new Uint8Array(byteOffset + length).subarray(byteOffset);
  return way === 'TypeScript'
    ? [output, castInTypeScript(from, to, bytes, output)]
    : [output, addon.cast(from, to, bytes, output, way)];
}

/** Bytes as unsigned numbers of an element each. */
function patternsOf(dtype: Dtype, bytes: Uint8Array): ArrayLike<number | bigint> {
  const arrays = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array } as const;
  const Patterns = arrays[bytesOf(dtype) as 1 | 2 | 4 | 8];
  return new Patterns(Uint8Array.from(bytes).buffer);
}

interface Tables {
  readonly nan: 'exact' | 'any';
  readonly casts: readonly string[];
}

export interface Table {
  readonly from: CastSource;
  readonly to: CastTarget;
  readonly input: Uint8Array;
  readonly expected: Uint8Array;
  readonly anyNaN: boolean;
}

export function readTables(folder: URL): Table[] {
  const read = (name: string) => new Uint8Array(readFileSync(new URL(name, folder)));
  const text = readFileSync(new URL('tables.json', folder), 'utf8');
  const { casts, nan } = JSON.parse(text) as Tables;
  return casts.map((name) => {
    const [from, to] = name.split('-') as [CastSource, CastTarget];
    const [input, expected] = [read(`${from}.input.bin`), read(`${name}.bin`)];
    return { from, to, input, expected, anyNaN: nan === 'any' };
  });
}

function isNaNAt(dtype: Dtype, bytes: Uint8Array, index: number): boolean {
  const width = bytesOf(dtype);
  const value = new Float32Array(1);
  convertToFloat32(dtype, bytes.slice(index * width, (index + 1) * width), value);
  return Number.isNaN(value[0]);
}

/** The first elements that differ, as hexadecimal patterns: input, result and what was expected. */
export function differences(
  { from, to, input, expected, anyNaN }: Table,
  result: Uint8Array,
): string[] {
  if (Buffer.compare(result, expected) === 0) return [];
  const [given, actual, wanted] = [
    patternsOf(from, input),
    patternsOf(to, result),
    patternsOf(to, expected),
  ];
  const found: string[] = [];
  for (let i = 0; i < wanted.length && found.length < 10; i++) {
    if (actual[i] === wanted[i]) continue;
    if (anyNaN && isNaNAt(to, result, i) && isNaNAt(to, expected, i)) continue;
    const texts = [given[i], actual[i], wanted[i]].map((pattern) => pattern?.toString(16));
    found.push(texts.join(' '));
  }
  return found;
}
