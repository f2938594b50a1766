import { describe, expect, it, vi } from 'vitest';
import type { Addon } from '../../../src/platform/addon/load.js';
import { CAST_SOURCES, CAST_TARGETS, castInTypeScript } from '../../../src/tensor/float32/cast.js';
import { fromFloat32 } from '../../../src/tensor/float32/from-float32.js';
import {
  addon,
  bytesOf,
  castBy,
  differences,
  readTables,
  STORED_FOLDER,
  ways,
} from './cast-tables.js';
import { atByteOffset } from './float-tables.js';

const tables = readTables(STORED_FOLDER);

describe('the tables', () => {
  it('have every cast', () => {
    const casts = CAST_SOURCES.flatMap((from) =>
      CAST_TARGETS.filter((to) => to !== (from as string)).map((to) => `${from}-${to}`),
    );
    expect(tables.map(({ from, to }) => `${from}-${to}`).sort()).toEqual(casts.sort());
  });
});

describe.each(ways)('%s', (way) => {
  it.each(tables)('$from to $to equals torch, NaN included', (table) => {
    expect(differences(table, castBy(way, table.from, table.to, table.input)[0])).toEqual([]);
  });

  it.each(tables)('$from to $to: every length, any alignment, not a byte beyond', (table) => {
    const { from, to, input, expected } = table;
    const [sourceBytes, targetBytes] = [bytesOf(from), bytesOf(to)];
    for (const length of [...Array(70).keys(), 255, 256, 257, 600]) {
      for (const byteOffset of [0, 1, 2, 5]) {
        const bytes = atByteOffset(input.subarray(0, length * sourceBytes), byteOffset);
        const [output] = castBy(way, from, to, bytes, 7 - byteOffset);
        expect(Buffer.compare(output, expected.subarray(0, length * targetBytes))).toBe(0);
        expect(new Uint8Array(output.buffer, 0, 7 - byteOffset).every((byte) => byte === 0)).toBe(
          true,
        );
      }
    }
    const length = 61 * targetBytes;
    const room = new Uint8Array(length + 40).fill(77);
    const output = room.subarray(20, 20 + length);
    if (way === 'TypeScript')
      castInTypeScript(from, to, input.subarray(0, 61 * sourceBytes), output);
    else addon.cast(from, to, input.subarray(0, 61 * sourceBytes), output, way);
    expect([...room.subarray(0, 20), ...room.subarray(20 + length)]).toEqual(
      new Array(40).fill(77),
    );
  });

  it.each([
    ['F16', [65504, 65519.99, -65519.99, Infinity, NaN], [65520, -65520, 1e38]],
    ['BF16', [3.38e38, -Infinity, NaN], [3.4e38, -3.4e38]],
    ['F8_E5M2', [57344, 61439, Infinity, NaN], [61440, -61440, 1e38]],
    ['F8_E4M3', [448, 464, -464, NaN], [464.1, -1e38, Infinity, -Infinity]],
  ] as const)('counts what is too large for %s', (to, fitting, tooLarge) => {
    // Among so many others that whole vectors and a rest are counted.
    const values = Float32Array.from({ length: 1003 }, (_, i) => fitting[i % fitting.length] ?? 0);
    const count = (given: Float32Array) => castBy(way, 'F32', to, new Uint8Array(given.buffer))[1];
    expect(count(values)).toBe(0);
    for (const [i, value] of tooLarge.entries()) values.fill(value, 200 * i, 200 * i + 20);
    values.fill(tooLarge[0], 1002);
    expect(count(values)).toBe(20 * tooLarge.length + 1);
    const doubles = new Uint8Array(Float64Array.from(values).buffer);
    expect(castBy(way, 'F64', to, doubles)[1]).toBe(20 * tooLarge.length + 1);
  });

  it('counts finite doubles that a float32 cannot hold, and no infinite ones', () => {
    const doubles = Float64Array.of(1e300, -1e300, Infinity, -Infinity, NaN, 3.4028234e38, 1);
    const bytes = new Uint8Array(doubles.buffer);
    expect(castBy(way, 'F64', 'F32', bytes)[1]).toBe(2);
    expect(castBy(way, 'F64', 'BF16', bytes)[1]).toBe(3);
    expect(castBy(way, 'F64', 'F16', bytes)[1]).toBe(3);
    expect(castBy(way, 'F64', 'F8_E4M3', bytes)[1]).toBe(5);
  });
});

describe('fromFloat32', () => {
  it.each(tables.filter(({ from }) => from === 'F32'))('gives these bits of $to', (table) => {
    const values = new Float32Array(table.input.slice().buffer);
    const { buffer } = fromFloat32(values, table.to);
    expect(differences(table, new Uint8Array(buffer))).toEqual([]);
  });
});

describe('the addon', () => {
  it('casts on the pool as on this thread', async () => {
    for (const { from, to, input } of tables) {
      const [expected, tooLarge] = castBy('plain', from, to, input);
      const output = new Uint8Array(expected.length);
      expect(await addon.castAsync(from, to, input, output)).toBe(tooLarge);
      expect(Buffer.compare(output, expected)).toBe(0);
    }
  });

  it('refuses arguments that do not fit', async () => {
    const [bytes, output] = [new Uint8Array(8), new Uint8Array(4)];
    const calls = [
      [['F33', 'BF16', bytes, output], /from must be F32, F64, F16 or BF16/],
      [['I32', 'BF16', bytes, output], /from/],
      [['F32', 'I16', bytes, output], /to must be F32, F16/],
      [['F32', 'F32', bytes, bytes], /to .* not the dtype of the elements/],
      [['F32', 'F64', bytes, new Uint8Array(16)], /to/],
      [['F32', 'BF16', new Uint16Array(4), output], /bytes/],
      [['F32', 'BF16', bytes.subarray(1), output], /bytes/],
      [['F32', 'BF16', bytes, new Uint16Array(2)], /output/],
      [['F32', 'BF16', bytes, output.subarray(1)], /output/],
    ] as const;
    for (const [args, message] of calls) {
      const given = args as unknown as Parameters<Addon['castAsync']>;
      expect(() => addon.cast(...given)).toThrow(TypeError);
      expect(() => addon.cast(...given)).toThrow(message);
      await expect(addon.castAsync(...given)).rejects.toThrow(message);
    }
    const level = 'other' as never;
    expect(() => addon.cast('F32', 'BF16', bytes, output, level)).toThrow(/level/);
  });
});

describe('without an addon', () => {
  it('TypeScript does it', async () => {
    vi.resetModules();
    const kernels = await import('../../../src/tensor/float32/kernels.js');
    const output = new Uint8Array(4);
    const bytes = new Uint8Array(Float32Array.of(1, 70000).buffer);
    expect(kernels.cast('F32', 'F16', bytes, output)).toBe(1);
    expect(output).toEqual(Uint8Array.of(0, 0x3c, 0, 0x7c));
    vi.resetModules();
  });
});
