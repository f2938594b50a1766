import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DTYPES, type Dtype } from '../../../src/header/dtype.js';
import { type FloatDtype, fromFloat32 } from '../../../src/tensor/float32/from-float32.js';
import { convertToFloat32, valueCountOf } from '../../../src/tensor/float32/to-float32.js';
import { nightly } from '../../support/nightly.js';
import { foreign } from '../../support/other-realm.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import {
  bitsOf,
  expectedPatterns,
  patternFolder,
  sampleValues,
  patternTables as tables,
  unpack,
} from './float-tables.js';

const python = findPython('torch', 'numpy', 'ml_dtypes');

/** The bit patterns of an encoded array, one per element. */
function patternsOf(dtype: FloatDtype, values: Float32Array): number[] {
  const encoded = fromFloat32(values, dtype);
  return unpack(new Uint8Array(encoded.buffer), DTYPES[dtype].bits);
}

function decode(dtype: Dtype, encoded: ArrayBufferView): Float32Array {
  const bytes = new Uint8Array(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  const output = new Float32Array(valueCountOf(dtype, (bytes.length * 8) / DTYPES[dtype].bits));
  convertToFloat32(dtype, bytes, output);
  return output;
}

/** Every pattern's value. */
function allValues(dtype: FloatDtype): Float32Array {
  const { bits } = DTYPES[dtype];
  const patterns = Uint16Array.from({ length: 2 ** bits }, (_, pattern) => pattern);
  if (bits === 16) return decode(dtype, patterns);
  if (bits === 8) return decode(dtype, Uint8Array.from(patterns));
  const bytes = new Uint8Array((2 ** bits * bits) / 8);
  for (const pattern of patterns) {
    for (let bit = 0; bit < bits; bit++) {
      const at = pattern * bits + bit;
      bytes[at >> 3] = (bytes[at >> 3] as number) | (((pattern >> bit) & 1) << (at & 7));
    }
  }
  return decode(dtype, bytes);
}

describe('the oracles', () => {
  it('cover every floating-point dtype of at most 16 bits', () => {
    const narrow = Object.entries(DTYPES).filter(
      ([name, { bits }]) => bits <= 16 && /^B?F/.test(name),
    );
    expect(tables.map(({ dtype }) => dtype).sort()).toEqual(narrow.map(([name]) => name).sort());
  });

  it.each(tables)('$dtype equals $oracle', (table) => {
    const dtype = table.dtype as FloatDtype;
    const values = sampleValues();
    const expected = expectedPatterns(table);
    expect(expected).toHaveLength(values.length);
    // Packed elements come in groups: the samples are filled up, and the rest is dropped again.
    const padded = new Float32Array(Math.ceil(values.length / 4) * 4);
    padded.set(values);
    const patterns = patternsOf(dtype, padded).slice(0, values.length);
    const decoded = new Map([...allValues(dtype)].map((value, pattern) => [pattern, value]));
    const different = patterns.flatMap((pattern, i) => {
      const wanted = expected[i] as number;
      const bothNaN = Number.isNaN(decoded.get(pattern)) && Number.isNaN(decoded.get(wanted));
      return pattern === wanted || bothNaN ? [] : [[values[i], pattern, wanted]];
    });
    expect(different).toEqual([]);
  });

  it('are the ones that the documentation names', () => {
    const page = readFileSync(
      new URL('../../../docs/internals/dtypes.md', import.meta.url),
      'utf8',
    );
    const [, section = ''] = page.split('## From float32');
    for (const { dtype, oracle } of tables) {
      const row = section.split('\n').find((line) => line.startsWith(`| \`${dtype}\` `));
      expect(row?.split('|').at(-2)?.trim()).toBe(oracle.split(' ')[0]);
    }
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'give the stored tables again'), () => {
    const script = new URL('../../../scripts/fixtures/from_float32_tables.py', import.meta.url);
    const output = runPython(python, [
      fileURLToPath(script),
      '--check',
      fileURLToPath(patternFolder),
    ]);
    expect(output).toMatch(/^\d+ values equal/);
  });
});

describe('fromFloat32', () => {
  it('does not believe the getters of a subclass', () => {
    class Lying extends Float32Array {
      override get length(): number {
        return 4;
      }
      override get byteOffset(): number {
        return 0;
      }
    }
    const values = new Lying(Float32Array.of(9, 1, -2).buffer, 4, 2);
    expect(fromFloat32(values, 'BF16')).toEqual(Uint16Array.of(0x3f80, 0xc000));
    expect(fromFloat32(values, 'F32')).toEqual(Float32Array.of(1, -2));
  });

  it.each(tables)('$dtype: every number that it has comes back', ({ dtype }) => {
    const values = allValues(dtype as FloatDtype);
    const again = decode(dtype, fromFloat32(values, dtype as FloatDtype));
    const bits = [bitsOf(again), bitsOf(values)] as const;
    const different = [...values].flatMap((value, i) =>
      bits[0][i] === bits[1][i] || (Number.isNaN(value) && Number.isNaN(again[i])) ? [] : [value],
    );
    expect(different).toEqual([]);
  });

  it.each(tables)('$dtype: takes a nearest number', ({ dtype }) => {
    const numbers = [...new Set(allValues(dtype as FloatDtype))]
      .filter((value) => Number.isFinite(value) && value >= 0)
      .sort((a, b) => a - b);
    const max = Math.fround(numbers.at(-1) as number);
    // Below, the oracle does not take the nearest.
    const min = dtype === 'F8_E8M0' ? 2 ** -126 : 0;
    fc.assert(
      fc.property(fc.float({ min, max, noNaN: true }), (value) => {
        const values = new Float32Array(4).fill(value);
        const result = decode(dtype, fromFloat32(values, dtype as FloatDtype))[0] as number;
        const distance = Math.abs(result - value);
        const upper = numbers.findIndex((number) => number >= value);
        const nearest = [numbers[Math.max(upper - 1, 0)], numbers[upper]] as [number, number];
        expect(distance).toBe(Math.min(...nearest.map((number) => Math.abs(number - value))));
      }),
      { numRuns: nightly(2000, 500) },
    );
  });

  it('gives the wide dtypes as copies of the values', () => {
    const values = sampleValues();
    expect(bitsOf(fromFloat32(values, 'F32'))).toEqual(bitsOf(values));
    expect(bitsOf(fromFloat32(values, 'C64'))).toEqual(bitsOf(values));
    expect(fromFloat32(values, 'F64')).toEqual(Float64Array.from(values));
    const copy = fromFloat32(values, 'F32');
    copy[0] = 77;
    expect(values[0]).not.toBe(77);
  });

  it('packs F4 and F6 from the lowest bit on', () => {
    expect(fromFloat32(Float32Array.of(0.5, 1, 0, -6), 'F4')).toEqual(Uint8Array.of(0x21, 0xf0));
    const stream = 1 | (2 << 6) | (3 << 12) | (0b100000 << 18);
    const bytes = Uint8Array.of(stream & 255, (stream >> 8) & 255, (stream >> 16) & 255);
    expect(fromFloat32(Float32Array.of(0.125, 0.25, 0.375, -0), 'F6_E2M3')).toEqual(bytes);
    expect(fromFloat32(Float32Array.of(0.0625, 0.125, 0.1875, -0), 'F6_E3M2')).toEqual(bytes);
  });

  it('reads a view within its buffer, and takes nothing', () => {
    const values = Float32Array.of(9, 1, 2, 9).subarray(1, 3);
    expect(fromFloat32(values, 'BF16')).toEqual(Uint16Array.of(0x3f80, 0x4000));
    expect(fromFloat32(new Float32Array(0), 'F4')).toEqual(new Uint8Array(0));
  });

  it('takes an array of another realm', () => {
    const values = foreign<Float32Array>('Float32Array.of(1, -2)');
    expect(fromFloat32(values, 'BF16')).toEqual(Uint16Array.of(0x3f80, 0xc000));
  });

  it('refuses other dtypes, other values and parts of elements', () => {
    const values = new Float32Array(3);
    const refusals = [
      [() => fromFloat32(values, 'I8' as never), TypeError, /dtype must be one of F4, .* "I8"/],
      [() => fromFloat32(values, 'int8' as never), TypeError, /dtype must be one of F4, .* "int8"/],
      [() => fromFloat32(values, 'bfloat16' as never), TypeError, /dtype must be 'BF16', but is/],
      [() => fromFloat32(values, 'BOOL' as never), TypeError, /BOOL/],
      [() => fromFloat32(values, 'toString' as never), TypeError, /toString/],
      [() => fromFloat32([1] as never, 'F16'), TypeError, /values must be a Float32Array/],
      [() => fromFloat32(values, 'F4'), RangeError, /multiple of 2 for F4, but is 3/],
      [() => fromFloat32(values, 'F6_E2M3'), RangeError, /multiple of 4/],
      [() => fromFloat32(values, 'C64'), RangeError, /multiple of 2 for C64/],
    ] as const;
    for (const [call, type, message] of refusals) {
      expect(call).toThrow(type);
      expect(call).toThrow(message);
    }
  });
});

describe('into', () => {
  const values = Float32Array.from({ length: 24 }, (_, i) => (i - 12) * 1.37);
  const dtypes = Object.keys(DTYPES).filter((name): name is FloatDtype => /^(?:B?F|C)/.test(name));

  it.each(dtypes)('%s: writes the bytes of a new array, and no others', (dtype) => {
    const expected = fromFloat32(values, dtype);
    const { byteLength } = expected;
    const buffer = new Uint8Array(byteLength + 32).fill(0xa5).buffer;
    const into = new DTYPES[dtype].data(buffer, 16, expected.length) as typeof expected;
    expect(fromFloat32(values, dtype, { into })).toBe(into);
    expect(into).toEqual(expected);
    const around = [new Uint8Array(buffer, 0, 16), new Uint8Array(buffer, 16 + byteLength)];
    expect(around.map((bytes) => [...bytes])).toEqual([Array(16).fill(0xa5), Array(16).fill(0xa5)]);
  });

  it('takes an array of another realm, and none of another type or length', () => {
    const into = foreign<Uint16Array<ArrayBuffer>>('new Uint16Array(24)');
    expect(fromFloat32(values, 'BF16', { into })).toBe(into);
    const convert = (array: unknown) => () => fromFloat32(values, 'BF16', { into: array as never });
    for (const wrong of [new Int16Array(24), new Float32Array(24), new ArrayBuffer(48), [], null]) {
      expect(convert(wrong)).toThrow(/into must be a Uint16Array for BF16/);
    }
    const detached = new Uint16Array(24);
    structuredClone(detached, { transfer: [detached.buffer] });
    for (const [wrong, found] of [
      [new Uint16Array(23), 23],
      [new Uint16Array(25), 25],
      [detached, 0],
    ] as const) {
      expect(convert(wrong)).toThrow(`the length of into must be 24 for BF16, but is ${found}`);
    }
  });

  it('rejects memory of the values, and takes memory next to them', () => {
    const buffer = new ArrayBuffer(24);
    const four = new Float32Array(buffer, 8, 2).fill(1.5);
    const convert = (byteOffset: number) =>
      fromFloat32(four, 'BF16', { into: new Uint16Array(buffer, byteOffset, 2) });
    for (const byteOffset of [6, 8, 12, 14]) {
      expect(() => convert(byteOffset)).toThrow('into must be memory that does not overlap');
    }
    expect([...convert(4), ...convert(16)]).toEqual(Array(4).fill(0x3fc0));
    expect([...four]).toEqual([1.5, 1.5]);
  });
});
