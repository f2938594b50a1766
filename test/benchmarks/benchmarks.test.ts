import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  alignedTable,
  formatByteSize,
  formatDuration,
  markdownTable,
  median,
  parseByteSize,
} from '../../benchmarks/figures.js';
import { MIN_MODEL_BYTES, mixedTensors, modelSizes, modelTensors } from '../../benchmarks/model.js';
import {
  encodeHeader,
  weightSource,
  writeModel,
  writeSparseModel,
} from '../../benchmarks/write-model.js';
import { parse } from '../../src/index.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-benchmarks-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test.each([
  ['1GB', 1e9],
  ['256 MiB', 2 ** 28],
  ['1.5gb', 1.5e9],
  ['1000', 1000],
  ['7 B', 7],
])('the size %j is %d bytes', (text, bytes) => {
  expect(parseByteSize(text)).toBe(bytes);
});

test.each(['', 'GB', '-1GB', '1XB', '1e9', '1 GB more', '99999999999GB'])(
  '%j is no size',
  (text) => {
    expect(parseByteSize(text)).toBeUndefined();
  },
);

test('sizes and times are shown with about three digits', () => {
  expect([0, 999, 1000, 256e6, 3e9].map(formatByteSize)).toEqual([
    '0 B',
    '999 B',
    '1.00 kB',
    '256 MB',
    '3.00 GB',
  ]);
  expect([0.000423, 0.0042, 0.0123, 4.125, 56.78, 345.6, 1234].map(formatDuration)).toEqual([
    '0.42 µs',
    '4.20 µs',
    '0.012 ms',
    '4.13 ms',
    '56.8 ms',
    '346 ms',
    '1.23 s',
  ]);
});

test('the median is the middle value, or the mean of the two', () => {
  expect(median([5, 1, 100])).toBe(5);
  expect(median([4, 1, 100, 2])).toBe(3);
  expect(median([])).toBeNaN();
});

test('tables align their columns', () => {
  const rows = [
    ['', 'open'],
    ['fs.readFile', '1 ms'],
    ['ours', '100 ms'],
  ];
  expect(alignedTable(rows)).toBe('               open\nfs.readFile    1 ms\nours         100 ms');
  expect(markdownTable(rows)).toBe(
    [
      '|             |   open |',
      '| ----------- | -----: |',
      '| fs.readFile |   1 ms |',
      '| ours        | 100 ms |',
    ].join('\n'),
  );
});

describe('the model', () => {
  test.each([MIN_MODEL_BYTES, 4e6, 32e6, 256e6, 1e9, 2e9, 3e9, 1e10])('of %d bytes', (bytes) => {
    const tensors = modelTensors(modelSizes(bytes));
    const total = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    expect(tensors).toHaveLength(147);
    expect(new Set(tensors.map((tensor) => tensor.name)).size).toBe(147);
    expect(Math.abs(total - bytes) / bytes).toBeLessThan(1e-3);
    // The plain mapping sums the data as one range: words must not straddle two tensors.
    expect(tensors.every((tensor) => tensor.byteLength % 8 === 0)).toBe(true);
  });

  test('has the shapes of the full model at its full size', () => {
    const shapes = new Map(
      modelTensors({ layers: 16, hidden: 2048, vocabulary: 128_256 }).map((tensor) => [
        tensor.name,
        tensor.shape,
      ]),
    );
    expect(shapes.get('model.layers.15.self_attn.k_proj.weight')).toEqual([512, 2048]);
    expect(shapes.get('model.layers.15.mlp.down_proj.weight')).toEqual([2048, 8192]);
    expect(shapes.get('lm_head.weight')).toEqual([128_256, 2048]);
  });

  test.each([MIN_MODEL_BYTES, 50e6, 500e6])('of %d bytes has F32 and F8 in it, too', (bytes) => {
    const tensors = mixedTensors(bytes);
    const total = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
    expect(Math.abs(total - bytes) / bytes).toBeLessThan(0.01);
    expect(new Set(tensors.map(({ dtype }) => dtype))).toEqual(new Set(['BF16', 'F32', 'F8_E4M3']));
    for (const { dtype, shape, byteLength } of tensors) {
      const width = dtype === 'F32' ? 4 : dtype === 'BF16' ? 2 : 1;
      expect(byteLength % 8).toBe(0);
      expect(byteLength).toBe(shape.reduce((product, dimension) => product * dimension, width));
    }
  });

  test('is written as a valid file with the same bytes each time', async () => {
    const signal = new AbortController().signal;
    const tensors = modelTensors(modelSizes(MIN_MODEL_BYTES));
    const paths = [join(folder, 'a.safetensors'), join(folder, 'b.safetensors')];
    for (const path of paths) await writeModel(path, tensors, signal);
    const [first, second] = await Promise.all(paths.map((path) => readFile(path)));
    expect(second?.equals(first ?? Buffer.alloc(0))).toBe(true);
    const file = parse(first ?? Buffer.alloc(0));
    expect(file.size).toBe(147);
    expect(file.metadata).toEqual(new Map([['format', 'pt']]));
    for (const { name, shape, dtype } of tensors) {
      expect(file.info(name)).toMatchObject({ dtype, shape });
    }
  });

  test('as a hole takes up no space', async () => {
    const path = join(folder, 'sparse.safetensors');
    const tensor = { name: 'a', dtype: 'U8', shape: [100_000_000], byteLength: 100_000_000 };
    await writeSparseModel(path, [tensor]);
    const { size, blocks } = await stat(path);
    expect(size).toBeGreaterThan(100_000_000);
    expect(blocks * 512).toBeLessThan(1_000_000);
  });
});

test('the header is compact, ordered by name and padded to 8 bytes', () => {
  const tensor = (name: string, byteLength: number) => ({
    name,
    dtype: 'U8',
    shape: [byteLength],
    byteLength,
  });
  const header = encodeHeader([tensor('b', 3), tensor('a', 2)], { k: 'v' });
  expect(header.length % 8).toBe(0);
  expect(header.readBigUInt64LE()).toBe(BigInt(header.length - 8));
  expect(header.toString('utf8', 8).trimEnd()).toBe(
    '{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},' +
      '"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}',
  );
});

test('weights are small BF16 values of either sign', () => {
  const words = new Uint32Array(100_000);
  weightSource()(words);
  const patterns = new Uint16Array(words.buffer);
  const values = new Float32Array(Uint32Array.from(patterns, (bits) => bits << 16).buffer);
  const magnitudes = values.map(Math.abs);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(Math.abs(mean)).toBeLessThan(0.001);
  expect(magnitudes.reduce((a, b) => Math.min(a, b))).toBeGreaterThan(0.007);
  expect(magnitudes.reduce((a, b) => Math.max(a, b))).toBeLessThan(0.032);
  // 18 of 32 bits are random: with a short cycle, fewer different words would show.
  expect(new Set(words).size).toBeGreaterThan(80_000);
});

test('weights go on from one array to the next', () => {
  const whole = new Uint32Array(64);
  weightSource()(whole);
  const fill = weightSource();
  const parts = [new Uint32Array(24), new Uint32Array(40)];
  for (const part of parts) fill(part);
  expect(parts.flatMap((part) => [...part])).toEqual([...whole]);
});
