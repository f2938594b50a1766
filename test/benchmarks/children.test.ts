/** The programs in Node that trials run: what they print. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BuffersResult } from '../../benchmarks/children/buffers.js';
import type { CallsResult } from '../../benchmarks/children/calls.js';
import type { ConvertCheckpointResult } from '../../benchmarks/children/convert-checkpoint.js';
import type { OpenHeaderResult } from '../../benchmarks/children/open-header.js';
import type { RowsResult } from '../../benchmarks/children/rows.js';
import { manySmallTensors } from '../../benchmarks/model.js';
import { runChild } from '../../benchmarks/run-child.js';
import { writeModel, writeSparseModel } from '../../benchmarks/write-model.js';
import { parse } from '../../src/index.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-children-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const { signal } = new AbortController();

/** Runs a script of `benchmarks/children` and gives its line. */
function runScript<Line>(name: string, ...args: string[]): Promise<Line> {
  const child = join(import.meta.dirname, '../../build/benchmarks/children', name);
  return runChild({ file: process.execPath, args: [child, ...args] }, signal);
}

test('every way of taking rows writes the same', async () => {
  const path = join(folder, 'table.safetensors');
  const table = { name: 'table', dtype: 'BF16', shape: [1000, 64], byteLength: 128_000 };
  await writeModel(path, [table], signal);
  const ways = ['slices', 'take', 'takeAsync'];
  const kinds = [ways, ['slices-float32', 'takeFloat32', 'takeFloat32Async']];
  for (const methods of kinds) {
    const sums = new Set<number>();
    for (const method of methods) {
      const result = await runScript<RowsResult>('rows.js', method, path, '200');
      const { first, held, again, sum } = result;
      expect(first > 0 && held > 0 && again > 0).toBe(true);
      sums.add(sum);
    }
    expect(sums.size).toBe(1);
  }
});

describe('calls on a small model', () => {
  let path: string;
  beforeAll(async () => {
    path = join(folder, 'calls.safetensors');
    await writeSparseModel(path, manySmallTensors(50));
  });

  test('take longer for all buffers than for the first', async () => {
    const { first, all, again } = await runScript<CallsResult>('calls.js', '-', path, '10');
    expect(first > 0 && all > first && again > 0 && again < first).toBe(true);
  });

  test('of the first open of a process, and of later ones', async () => {
    for (const method of ['open', 'keys', 'json', 'json-keys']) {
      const open = (later: string): Promise<OpenHeaderResult> =>
        runScript('open-header.js', method, path, later);
      const { first, later } = await open('5');
      expect(later !== null && first > 0 && later > 0).toBe(true);
      expect((await open('0')).later).toBe(null);
    }
    await expect(runScript('open-header.js', 'close', path, '0')).rejects.toThrow(
      'no method close',
    );
  });
});

test('buffers are made beside live objects, counted or not', async () => {
  const path = join(folder, 'sparse.safetensors');
  const tensor = { dtype: 'U8', shape: [2 ** 26], byteLength: 2 ** 26 };
  await writeSparseModel(path, [
    { ...tensor, name: 'a' },
    { ...tensor, name: 'b' },
  ]);
  const make = (method: string): Promise<BuffersResult> =>
    runScript('buffers.js', method, path, '1000');
  for (const method of ['default', 'counted']) {
    const { first, all, liveBytes, collections } = await make(method);
    expect(first > 0 && all >= first && liveBytes > 0 && collections >= 0).toBe(true);
  }
  expect((await make('counted')).counted).toMatch(/^the environment sets/);
});

test('a checkpoint of torch is read, and converted to the same file in every way', async () => {
  const source = join(import.meta.dirname, '../fixtures/torch/zip-state-dict.pt');
  const bytes: Buffer[] = [];
  for (const method of ['verified', 'unverified']) {
    const target = join(folder, `${method}.safetensors`);
    const run = runScript<ConvertCheckpointResult>('convert-checkpoint.js', method, source, target);
    expect((await run).elapsed).toBeGreaterThan(0);
    bytes.push(await readFile(target));
  }
  const [first = Buffer.alloc(0), second] = bytes;
  expect(second).toEqual(first);
  expect(parse(first).size).toBeGreaterThan(1);
  const copy = join(folder, 'copy.pt');
  await runScript('convert-checkpoint.js', 'cp', source, copy);
  expect(await readFile(copy)).toEqual(await readFile(source));
});
