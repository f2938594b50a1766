/** The native kernels have the bits of those in TypeScript, which fixtures compare with the originals. */
import { describe, expect, it } from 'vitest';
import { DTYPES, type Dtype } from '../../src/header/dtype.js';
import { type Addon, type ConversionLevel, loadAddon } from '../../src/platform/addon/load.js';
import * as small from '../../src/quantized/blocks/small-blocks.js';
import * as large from '../../src/quantized/blocks/super-blocks.js';
import { BLOCK_TYPES, type BlockType } from '../../src/quantized/blocks/types.js';
import { multiply } from '../../src/quantized/kernels/groups.js';
import { NATIVE_BLOCK_TYPES, type ScaledRows } from '../../src/tensor/float32/kernels.js';
import { convertToFloat32 } from '../../src/tensor/float32/to-float32.js';

const loaded = loadAddon();
if (!('addon' in loaded)) throw new Error(loaded.reason);
const addon: Addon = loaded.addon;

const kernels = { ...small, ...large };

const levels: readonly ConversionLevel[] = (['best', 'plain', 'avx2'] as const).filter((level) => {
  try {
    addon.decodeBlocks('Q8_0', new Uint8Array(0), new Float32Array(0), level);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOTSUP' });
    return false;
  }
});

/** Results within a buffer of this length are written past the caches. */
const STREAMED_BYTE_LENGTH = 2 ** 22;

let state = 1;
function random(below: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

function randomBytes(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, () => random(256));
}

/** Memory for results of up to 77,056 values, with zeros around them. */
const BUFFERS = [new ArrayBuffer(320_000), new ArrayBuffer(STREAMED_BYTE_LENGTH)];
const AROUND = 32;

/** Arrays to decode into: in a short and in a long buffer, aligned to 4, 8, 16 and 64 bytes. */
function outputs(length: number): Float32Array<ArrayBuffer>[] {
  return BUFFERS.flatMap((buffer) =>
    [128, 132, 136, 144].map((byteOffset) => new Float32Array(buffer, byteOffset, length).fill(0)),
  );
}

/** Whether both have the same numbers, and nothing around the result was written. All NaN are the same. */
function expectSame(result: Float32Array, expected: Float32Array): void {
  for (let i = 0; i < expected.length; i++) {
    if (!Object.is(result[i], expected[i])) {
      expect.fail(`[${i}] is ${result[i]}, not ${expected[i]}`);
    }
  }
  const { buffer, byteOffset, byteLength } = result;
  const before = new Float32Array(buffer, byteOffset - 4 * AROUND, AROUND);
  const after = new Float32Array(buffer, byteOffset + byteLength, AROUND);
  expect([...before, ...after].every((value) => value === 0)).toBe(true);
  result.fill(0);
}

/** Float16 numbers of every kind: zeros, subnormal ones, the largest ones, infinities and NaN. */
const HALVES = [
  0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xb555, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01,
];

function randomBlocks({ byteLength, words }: BlockType, count: number): Uint8Array {
  const blocks = randomBytes(byteLength * count + 1).subarray(1);
  for (let block = 0; block < count; block++) {
    for (const word of words as readonly number[]) {
      const half = block % 2 === 0 ? random(0x7c00) : (HALVES[random(HALVES.length)] as number);
      new DataView(blocks.buffer, blocks.byteOffset).setUint16(
        block * byteLength + word,
        half,
        true,
      );
    }
  }
  return blocks;
}

describe.each(NATIVE_BLOCK_TYPES)('blocks of %s', (type) => {
  const block = BLOCK_TYPES.get(type) as BlockType;
  const decode = kernels[`decode${type}`];

  it('are decoded as in TypeScript', () => {
    for (const count of [0, 1, 2, 301]) {
      const blocks = randomBlocks(block, count);
      const expected = new Float32Array(count * block.length);
      decode(blocks, expected);
      for (const level of levels) {
        for (const output of outputs(expected.length)) {
          addon.decodeBlocks(type, blocks, output, level);
          expectSame(output, expected);
        }
      }
    }
  });

  it('are rejected unless whole, into exactly their values', () => {
    const decodeInto = (byteLength: number, length: number) => () =>
      addon.decodeBlocks(type, new Uint8Array(byteLength), new Float32Array(length));
    expect(decodeInto(block.byteLength - 1, block.length)).toThrow(/bytes/);
    expect(decodeInto(block.byteLength + 1, block.length)).toThrow(/bytes/);
    expect(decodeInto(block.byteLength, block.length - 1)).toThrow(/output/);
    expect(decodeInto(block.byteLength, block.length + 1)).toThrow(/output/);
  });
});

/** Rows with random codes and a grid of random scales; the grid may be longer than they need. */
function randomRows(dtype: Dtype): ScaledRows {
  const columns = 4 * (1 + random(random(4) === 0 ? 900 : 40));
  const rows = 1 + random(5);
  const blockRows = [1, 1, 2, 128][random(4)] as number;
  const blockColumns = [1, 3, 16, 32, 128, columns, 10_000][random(7)] as number;
  const firstRow = random(blockRows);
  const gridColumns = Math.ceil(columns / blockColumns) + random(2);
  const scaleCount = (Math.ceil((firstRow + rows) / blockRows) + random(2)) * gridColumns;
  const special = [0, -0, Number.POSITIVE_INFINITY, Number.NaN, 2 ** -149, 3.4e38];
  return {
    ...{ dtype, columns, blockRows, blockColumns, firstRow, gridColumns },
    bytes: randomBytes((rows * columns * DTYPES[dtype].bits) / 8 + 3).subarray(3),
    output: new Float32Array(rows * columns),
    scales: Float32Array.from({ length: scaleCount }, () =>
      random(20) === 0 ? (special[random(6)] as number) : (random(2000) - 1000) / 77,
    ),
  };
}

describe.each(['F8_E4M3', 'F8_E5M2', 'I8', 'U8', 'F4', 'BF16', 'F16', 'F32'] as const)(
  'rows of %s',
  (dtype) => {
    it('are multiplied as in TypeScript, 200 times', () => {
      for (let i = 0; i < 200; i++) {
        const rows = randomRows(dtype);
        convertToFloat32(dtype, rows.bytes, rows.output);
        multiply(rows.output, rows, rows.scales);
        const all = outputs(rows.output.length);
        for (const [at, level] of levels.entries()) {
          const output = all[(i + at) % all.length] as Float32Array;
          addon.dequantizeRows({ ...rows, output }, level);
          expectSame(output, rows.output);
        }
      }
    });
  },
);

describe('arguments', () => {
  const rows: ScaledRows = {
    ...{ dtype: 'U8', bytes: new Uint8Array(24), output: new Float32Array(24), columns: 8 },
    ...{ firstRow: 1, blockRows: 2, blockColumns: 3, gridColumns: 3, scales: new Float32Array(6) },
  };

  it('are taken where they fit', () => {
    expect(() => addon.dequantizeRows(rows)).not.toThrow();
  });

  it.each<[string, Partial<ScaledRows>]>([
    ['bytes', { bytes: [] as never }],
    ['output', { output: new Float32Array(23) }],
    ['columns', { columns: 0 }],
    ['columns', { columns: 7 }],
    ['columns', { columns: 48 }],
    ['columns', { columns: 2 ** 52 }],
    ['columns', { dtype: 'F4', bytes: new Uint8Array(12), columns: 3, gridColumns: 1 }],
    ['firstRow', { firstRow: 2 }],
    ['firstRow', { firstRow: -1 }],
    ['blockRows', { blockRows: 0 }],
    ['blockColumns', { blockColumns: 0 }],
    ['gridColumns', { gridColumns: 2 }],
    ['gridColumns', { gridColumns: 0 }],
    ['scales', { gridColumns: 2 ** 52 }],
    ['scales', { scales: new Float32Array(5) }],
    ['scales', { blockRows: 1, firstRow: 0 }],
  ])('%s are rejected: %o', (name, changed) => {
    expect(() => addon.dequantizeRows({ ...rows, ...changed })).toThrow(name);
  });
});
