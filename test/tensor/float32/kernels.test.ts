import { cpus } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { DTYPE_NAMES, DTYPES, type Dtype } from '../../../src/header/dtype.js';
import { type Addon, type ConversionLevel, loadAddon } from '../../../src/platform/addon/load.js';
import { convertToFloat32, valueCountOf } from '../../../src/tensor/float32/to-float32.js';
import {
  atByteOffset,
  bitsOf,
  differences,
  expectedOf,
  inputOf,
  float32Tables as tables,
} from './float-tables.js';

const loaded = loadAddon();
if (!('addon' in loaded)) throw new Error(loaded.reason);
const { addon } = loaded;

/** Levels of this processor; `plain` is there on all. */
const levels: readonly ConversionLevel[] = (['best', 'plain', 'avx2'] as const).filter((level) => {
  try {
    addon.convert('U8', new Uint8Array(1), new Float32Array(1), level);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOTSUP' });
    return false;
  }
});

/** Outputs of this many values and more are written past the caches. */
const STREAMED = 2 ** 20;

function outputFor(dtype: Dtype, bytes: Uint8Array): Float32Array {
  return new Float32Array(valueCountOf(dtype, (bytes.length * 8) / DTYPES[dtype].bits));
}

function inTypeScript(dtype: Dtype, bytes: Uint8Array): Float32Array {
  const output = outputFor(dtype, bytes);
  convertToFloat32(dtype, bytes, output);
  return output;
}

/** Whether both have the same bits; up to 16 bits also for NaN. */
function expectSame(dtype: Dtype, result: Float32Array, expected: Float32Array): void {
  if (DTYPES[dtype].bits <= 16) {
    const [actual, wanted] = [bitsOf(result), bitsOf(expected)];
    expect(Buffer.compare(bytesOf(actual), bytesOf(wanted))).toBe(0);
  } else if (Buffer.compare(bytesOf(result), bytesOf(expected)) !== 0) {
    expect(differences(result, expected)).toEqual([]);
  }
}

function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** The input again and again, to at least that many values. */
function repeated(dtype: Dtype, input: Uint8Array, valueCount: number): Uint8Array {
  const times = Math.ceil(valueCount / outputFor(dtype, input).length);
  const bytes = new Uint8Array(times * input.length);
  for (let i = 0; i < times; i++) bytes.set(input, i * input.length);
  return bytes;
}

afterEach(() => {
  vi.resetModules();
});

describe('levels', () => {
  it('are told apart', ({ annotate }) => {
    annotate(`${levels.join(', ')} on ${cpus()[0]?.model}`);
    expect(levels).toEqual(expect.arrayContaining(['best', 'plain']));
    expect(() =>
      addon.convert('U8', new Uint8Array(1), new Float32Array(1), 'other' as never),
    ).toThrow(TypeError);
  });

  it.runIf(process.platform === 'linux')('have AVX2 where the system says so', async () => {
    const { readFileSync } = await import('node:fs');
    const flags = readFileSync('/proc/cpuinfo', 'utf8');
    const hasBoth = process.arch === 'x64' && /\bavx2\b/.test(flags) && /\bf16c\b/.test(flags);
    expect(levels.includes('avx2')).toBe(hasBoth);
  });
});

describe.each(levels)('%s', (level) => {
  it.each(tables)('$dtype equals $oracle and the TypeScript, at every alignment', (table) => {
    const { dtype } = table;
    const input = inputOf(table);
    const expected = expectedOf(table);
    const inScript = inTypeScript(dtype, input);
    for (let byteOffset = 0; byteOffset < 9; byteOffset++) {
      const output = outputFor(dtype, input);
      addon.convert(dtype, atByteOffset(input, byteOffset), output, level);
      expect(differences(output, expected)).toEqual([]);
      expectSame(dtype, output, inScript);
    }
  });

  it.each(tables)('$dtype: every length, and not a byte beyond', ({ dtype, ...table }) => {
    const { bits } = DTYPES[dtype];
    const group = bits === 6 ? 3 : Math.ceil(bits / 8);
    const input = repeated(dtype, inputOf({ dtype, ...table }), 600);
    for (let length = 0; length < 70 * group; length += group) {
      const bytes = atByteOffset(input.subarray(0, length), 1);
      const expected = inTypeScript(dtype, bytes);
      const room = new Float32Array(expected.length + 10).fill(77);
      const output = room.subarray(5, 5 + expected.length);
      addon.convert(dtype, bytes, output, level);
      expectSame(dtype, output, expected);
      expect([...room.subarray(0, 5), ...room.subarray(5 + expected.length)]).toEqual(
        new Array(10).fill(77),
      );
    }
  });

  // The output begins at each distance from a vector, and does not end with a block.
  it.each(tables)('$dtype: large outputs at every alignment', ({ dtype, ...table }) => {
    const { bits } = DTYPES[dtype];
    const group = bits === 6 ? 3 : Math.ceil(bits / 8);
    const bytes = repeated(dtype, inputOf({ dtype, ...table }), STREAMED + 300);
    const expected = inTypeScript(dtype, bytes);
    const room = new Float32Array(expected.length + 16);
    for (let first = 0; first < 8; first++) {
      const cut = expected.length - (group === 1 && bits === 8 ? first : 0);
      const cutBytes = bytes.subarray(0, bytes.length - (expected.length - cut) * group);
      room.fill(77);
      const output = room.subarray(first, first + cut);
      addon.convert(dtype, cutBytes, output, level);
      expectSame(dtype, output, expected.subarray(0, cut));
      expect(room[first + cut]).toBe(77);
      if (first > 0) expect(room[first - 1]).toBe(77);
    }
  });
});

describe('the addon', () => {
  it('has the dtypes in the order of the table', () => {
    // Sizes and values tell them apart; this is the list that would have to change with the addon's.
    expect(tables.map(({ dtype }) => dtype).sort()).toEqual([...DTYPE_NAMES].sort());
  });

  it('refuses arguments that do not fit', async () => {
    const [bytes, output] = [new Uint8Array(4), new Float32Array(2)];
    const calls = [
      [['F17', bytes, output], TypeError, /dtype/],
      [['BF16', new Uint16Array(2), output], TypeError, /bytes must be a Uint8Array/],
      [['BF16', bytes, new Float64Array(2)], TypeError, /output/],
      [['BF16', bytes, new Float32Array(3)], TypeError, /output/],
      [['F6_E2M3', bytes, output], TypeError, /output/],
      [['C64', bytes, output], TypeError, /output/],
    ] as const;
    for (const [args, type, message] of calls) {
      const given = args as unknown as Parameters<Addon['convertAsync']>;
      expect(() => addon.convert(...given)).toThrow(type);
      expect(() => addon.convert(...given)).toThrow(message);
      await expect(addon.convertAsync(...given)).rejects.toThrow(type);
      await expect(addon.convertAsync(...given)).rejects.toThrow(message);
    }
  });

  it('converts on the pool as on this thread', async () => {
    for (const table of tables) {
      const bytes = repeated(table.dtype, inputOf(table), 5000);
      const output = outputFor(table.dtype, bytes);
      await addon.convertAsync(table.dtype, bytes, output);
      expectSame(table.dtype, output, inTypeScript(table.dtype, bytes));
    }
  });

  it('copies float32 onto itself', () => {
    const values = Float32Array.of(1, 2, 3);
    addon.convert('F32', new Uint8Array(values.buffer), values);
    expect([...values]).toEqual([1, 2, 3]);
  });
});

describe('without an addon', () => {
  it('TypeScript does it, on this thread', async () => {
    vi.resetModules();
    const kernels = await import('../../../src/tensor/float32/kernels.js');
    expect(kernels.hasPool()).toBe(false);
    const output = new Float32Array(2);
    kernels.toFloat32('BF16', Uint8Array.of(0x80, 0x3f, 0, 0xc0), output);
    expect([...output]).toEqual([1, -2]);
    await kernels.convertOnPool('U8', Uint8Array.of(5, 6), output);
    expect([...output]).toEqual([5, 6]);
  });
});
