import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { DTYPE_NAMES, DTYPES, type Dtype } from '../../../src/header/dtype.js';
import { convertToFloat32, valueCountOf } from '../../../src/tensor/float32/to-float32.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import {
  atByteOffset,
  differences,
  expectedOf,
  float32Folder,
  inputOf,
  float32Tables as tables,
} from './float-tables.js';

const python = findPython('torch', 'numpy', 'ml_dtypes');

function converted(dtype: Dtype, bytes: Uint8Array): Float32Array {
  const elementCount = (bytes.length * 8) / DTYPES[dtype].bits;
  const output = new Float32Array(valueCountOf(dtype, elementCount));
  convertToFloat32(dtype, bytes, output);
  return output;
}

function convert(dtype: Dtype, ...bytes: number[]): number[] {
  return [...converted(dtype, Uint8Array.from(bytes))];
}

describe('the oracles', () => {
  it('cover every dtype, up to 16 bits with every pattern', () => {
    expect(tables.map(({ dtype }) => dtype).sort()).toEqual([...DTYPE_NAMES].sort());
    for (const table of tables) {
      const { bits } = DTYPES[table.dtype];
      expect(table.input === undefined).toBe(bits <= 16);
      if (bits <= 16) expect(expectedOf(table)).toHaveLength(2 ** bits);
      else expect(expectedOf(table).length).toBeGreaterThan(200);
    }
  });

  it.each(tables)('$dtype equals $oracle at every alignment', (table) => {
    const input = inputOf(table);
    const expected = expectedOf(table);
    for (let byteOffset = 0; byteOffset < 9; byteOffset++) {
      const result = converted(table.dtype, atByteOffset(input, byteOffset));
      expect(differences(result, expected)).toEqual([]);
    }
  });

  it('are the ones that the documentation names', () => {
    const page = readFileSync(
      new URL('../../../docs/internals/dtypes.md', import.meta.url),
      'utf8',
    );
    for (const { dtype, oracle } of tables) {
      const { bits, data } = DTYPES[dtype];
      const row = page.split('\n').find((line) => line.startsWith(`| \`${dtype}\` `));
      const cells = row?.split('|').map((cell) => cell.trim()) ?? [];
      const [product, version] = oracle.split(' ') as [string, string];
      expect([cells[2], cells[3], cells[5]]).toEqual([`${bits}`, `\`${data.name}\``, product]);
      expect(page).toContain(`${product} ${version}`);
    }
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'give the stored tables again'), () => {
    const script = new URL('../../../scripts/fixtures/float32_tables.py', import.meta.url);
    const output = runPython(python, [
      fileURLToPath(script),
      '--check',
      fileURLToPath(float32Folder),
    ]);
    expect(output).toMatch(/^\d+ values equal/);
  });
});

describe('convertToFloat32', () => {
  it.each(tables)('$dtype: converts every length and several blocks alike', (table) => {
    const { bits } = DTYPES[table.dtype];
    const input = inputOf(table);
    const expected = expectedOf(table);
    const group = bits === 6 ? 3 : Math.ceil(bits / 8);
    for (let length = 0; length < 5 * group; length += group) {
      const elementCount = (length * 8) / bits;
      for (const byteOffset of [0, 1]) {
        const bytes = atByteOffset(input.subarray(0, length), byteOffset);
        const result = converted(table.dtype, bytes);
        expect(result).toHaveLength(table.dtype === 'C64' ? 2 * elementCount : elementCount);
        expect(differences(result, expected.subarray(0, result.length))).toEqual([]);
      }
    }

    const times = Math.ceil(200_000 / input.length);
    const repeated = new Uint8Array(times * input.length + 1).subarray(1);
    for (let i = 0; i < times; i++) repeated.set(input, i * input.length);
    const result = converted(table.dtype, repeated);
    const all = new Float32Array(times * expected.length);
    for (let i = 0; i < times; i++) all.set(expected, i * expected.length);
    expect(differences(result, all)).toEqual([]);
  });

  it('leaves the input as it is and gives a copy', () => {
    const bytes = Uint8Array.from([0, 0, 128, 63]);
    const result = converted('F32', bytes);
    result[0] = 5;
    expect([...bytes]).toEqual([0, 0, 128, 63]);
  });

  it('reads the first F4 from the low four bits', () => {
    expect(convert('F4', 0x21, 0xf0)).toEqual([0.5, 1, 0, -6]);
  });

  it('reads F6 as a little-endian bit stream', () => {
    // Patterns 1, 2, 3 and 0b100000 from the lowest bit on.
    const stream = 1 | (2 << 6) | (3 << 12) | (0b100000 << 18);
    const bytes = [stream & 255, (stream >> 8) & 255, (stream >> 16) & 255];
    expect(convert('F6_E2M3', ...bytes)).toEqual([0.125, 0.25, 0.375, -0]);
    expect(convert('F6_E3M2', ...bytes)).toEqual([0.0625, 0.125, 0.1875, -0]);
  });

  it('gives 1 for every byte of a BOOL but 0', () => {
    expect(convert('BOOL', 0, 1, 2, 128, 255)).toEqual([0, 1, 1, 1, 1]);
  });

  it('gives the real and the imaginary part of a C64', () => {
    expect(convert('C64', 0, 0, 128, 63, 0, 0, 0, 192)).toEqual([1, -2]);
  });

  it('rounds a 64-bit integer once: not to a double first', () => {
    // Just above a float32 tie, by less than a double can hold: the double in between is the tie.
    const value = 2n ** 63n + 2n ** 39n + 1n;
    expect(Math.fround(Number(value))).toBe(2 ** 63);
    const bytes = new Uint8Array(BigUint64Array.of(value).buffer);
    expect(converted('U64', bytes)[0]).toBe(2 ** 63 + 2 ** 40);
    const negative = new Uint8Array(BigInt64Array.of(-(2n ** 62n) - 2n ** 38n - 1n).buffer);
    expect(converted('I64', negative)[0]).toBe(-(2 ** 62) - 2 ** 39);
  });
});
