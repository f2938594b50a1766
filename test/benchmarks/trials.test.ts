/** The trials as data, and what their children share. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expertTensors, spread, writeCheckpoint } from '../../benchmarks/checkpoint-files.js';
import { checkHeader } from '../../benchmarks/children/check-header.js';
import { tensorPlacesOf } from '../../benchmarks/children/plain-header.js';
import { haveSameBytes, tensorDifference } from '../../benchmarks/compare-written.js';
import { prepareDriver } from '../../benchmarks/driver-command.js';
import { OURS, PLAIN_MAPPING, READERS, TORCH_LOAD } from '../../benchmarks/drivers.js';
import type { Equipment } from '../../benchmarks/equipment.js';
import { manySmallTensors } from '../../benchmarks/many-tensors.js';
import { measureWriters, memoryOf, timeOf } from '../../benchmarks/measure-writers.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from '../../benchmarks/model.js';
import { ChildError, holdChild, runChild } from '../../benchmarks/run-child.js';
import { saveWriters } from '../../benchmarks/trials/save.js';
import { encodeHeader, writeModel, writeSparseModel } from '../../benchmarks/write-model.js';
import { openCheckpoint, parse, reshard, safeOpen } from '../../src/index.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-trials-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const { signal } = new AbortController();

test('no two readers have the same name', () => {
  expect(new Set(READERS.map(({ name }) => name)).size).toBe(READERS.length);
});

describe('a driver', () => {
  const selection = { index: 3, begin: 100, byteLength: 8 };
  const equipment: Equipment = {
    loop: {
      addon: 'touch.node',
      library: 'libtouch.so',
      rawLimit: 'raw_limit',
      writeLimit: 'write_limit',
      pageCache: 'cache',
    },
    python: { file: 'python', version: '3', packages: {} },
    inputs: {
      safetensors: { path: 'model', files: ['model'] },
      torch: 'no copy',
      torchLegacy: 'no copy',
      pickle4: 'no copy',
      pickle5: 'no copy',
      npz: 'no copy',
      npy: 'no copy',
      hdf5: 'no copy',
    },
    npmPackages: {},
    all: selection,
    middle: selection,
  };
  const task = { selection, hold: false };

  test('runs with the file, the loop and the tensor to read', () => {
    const prepared = prepareDriver(OURS, equipment, task);
    expect(prepared).toMatchObject({ files: ['model'] });
    expect(prepared).toMatchObject({
      command: {
        args: [expect.stringContaining('read-mapped.js'), 'model', 'touch.node', '3', '-', ''],
      },
    });
    expect(prepareDriver(PLAIN_MAPPING, equipment, { selection, hold: true })).toMatchObject({
      command: { file: 'raw_limit', args: ['mapping', 'model', '100', '8', 'hold'] },
    });
  });

  test('that lacks something says what', () => {
    expect(prepareDriver(TORCH_LOAD, equipment, task)).toBe('Python has no: torch');
    expect(prepareDriver(TORCH_LOAD, { ...equipment, python: 'no Python' }, task)).toBe(
      'no Python',
    );
    expect(prepareDriver(PLAIN_MAPPING, { ...equipment, loop: 'no cc' }, task)).toMatch(/compiler/);
    const python = { file: 'python', version: '3', packages: { torch: '2' } };
    expect(prepareDriver(TORCH_LOAD, { ...equipment, python }, task)).toBe('no copy');
    const rival = READERS.find(({ name }) => name === 'mmap-io');
    expect(rival && prepareDriver(rival, equipment, task)).toMatch(/not installed.*mmap-io/);
  });
});

describe('headers of many tensors', () => {
  const tensors = manySmallTensors(25);
  const header = encodeHeader(tensors, {});
  const dataByteLength = 25 * 512;
  const text = header.toString('utf8', 8);

  test('are valid, and small enough for a million tensors', () => {
    const file = parse(Buffer.concat([header, Buffer.alloc(dataByteLength)]));
    expect(file.size).toBe(25);
    const million = encodeHeader(manySmallTensors(1_000_000).slice(-1000), {}).length / 1000;
    expect(million).toBeLessThan(97);
  });

  test('are checked by the rival as they should be', () => {
    expect(checkHeader(text, dataByteLength).size).toBe(25);
    expect(() => checkHeader(text, dataByteLength + 1)).toThrow('another size');
    expect(() => checkHeader(text.replace('BF16', 'BF17'), dataByteLength)).toThrow();
    expect(() => checkHeader(text.replace('[16,16]', '[16,15]'), dataByteLength)).toThrow();
    expect(() => checkHeader(text.replace('[0,512]', '[512,1024]'), dataByteLength)).toThrow('gap');
  });

  test('say where the tensors are', () => {
    const places = tensorPlacesOf(header);
    expect(places).toHaveLength(25);
    expect(places[0]).toEqual({ begin: header.length, end: header.length + 512 });
    expect(places.at(-1)?.end).toBe(header.length + dataByteLength);
  });
});

describe('a checkpoint of experts', () => {
  const tensors = expertTensors(92_000);

  test('has names that differ, in shards of nearly the same number', () => {
    expect(new Set(tensors.map(({ name }) => name)).size).toBe(92_000);
    const shards = spread(tensors, 163);
    expect([...shards.values()].flat()).toEqual(tensors);
    expect(new Set(Array.from(shards.values(), ({ length }) => length))).toEqual(
      new Set([564, 565]),
    );
  });

  test('is one that opens, with headers in the order of the reference', async () => {
    const target = join(folder, 'experts');
    const path = await writeCheckpoint(target, spread(tensors.slice(0, 40), 3), writeSparseModel);
    using checkpoint = openCheckpoint(path);
    await checkpoint.verify();
    expect(checkpoint.size).toBe(40);
    const dtypes = checkpoint.offsetKeys().map((name) => checkpoint.info(name).dtype);
    expect(dtypes.slice(0, 13)).toEqual([...Array(6).fill('F32'), ...Array(7).fill('F8_E4M3')]);
    expect(checkpoint.keys()).toEqual([...checkpoint.keys()].sort());
  });
});

describe('writers', () => {
  const copy = (text: string): { file: string; args: string[] } => ({
    file: process.execPath,
    args: ['--input-type=module', '-e', text],
  });
  const line = 'console.log(JSON.stringify({ elapsed: 5, extraMemory: 7 }))';

  test('that fail, or write other bytes, have a reason and no results', async () => {
    const [source, target] = [join(folder, 'source'), join(folder, 'target')];
    await writeFile(source, 'right');
    const writing = (text: string): string =>
      `import fs from 'node:fs'; fs.writeFileSync(${JSON.stringify(target)}, '${text}'); ${line};`;
    const rows = await measureWriters(
      [
        { name: 'right', command: copy(writing('right')) },
        { name: 'wrong', command: copy(writing('wrong')) },
        { name: 'failing', command: copy('throw new Error("full")') },
        { name: 'missing', command: 'not there' },
      ],
      {
        sources: [source],
        byteLength: 5,
        target,
        check: async () => ((await haveSameBytes(source, target)) ? undefined : 'other bytes'),
        rounds: 2,
        loop: 'no compiler',
        signal,
      },
    );
    expect(rows.map(({ reason }) => reason)).toEqual([
      undefined,
      'other bytes',
      'Error: full',
      'not there',
    ]);
    expect(rows.map(({ results }) => results.length)).toEqual([2, 0, 0, 0]);
    expect([timeOf(rows, 'right'), memoryOf(rows, 'right')]).toEqual([5, 7]);
    expect([timeOf(rows, 'wrong'), memoryOf(rows, 'wrong')]).toEqual([Number.NaN, Number.NaN]);
    expect(existsSync(target)).toBe(false);
  });

  test('of which the packages are missing say so, and none has the name of another', () => {
    const equipment = { loop: 'no cc', python: { file: 'python', version: '3', packages: {} } };
    const writers = saveWriters('source', 'target', equipment);
    expect(new Set(writers.map(({ name }) => name)).size).toBe(writers.length);
    const commandOf = (pattern: RegExp) => writers.find(({ name }) => pattern.test(name))?.command;
    expect(commandOf(/torch/)).toBe('Python has no: safetensors, torch');
    expect(commandOf(/limit: write/)).toBe('no cc');
    expect(commandOf(/^saveFile$/)).toMatchObject({
      args: [expect.stringContaining('save.js'), 'memory-durable', 'source', 'target'],
    });
  });

  test('of shards are compared tensor by tensor', async () => {
    const path = join(folder, 'whole.safetensors');
    await writeModel(path, modelTensors(modelSizes(MIN_MODEL_BYTES)), { signal });
    const shards = join(folder, 'resharded');
    await reshard(path, shards, { maxShardSize: MIN_MODEL_BYTES / 4 });
    const differenceIn = (folder: string): string | undefined => {
      using file = safeOpen(path);
      using checkpoint = openCheckpoint(folder);
      return tensorDifference(file, checkpoint);
    };
    expect(differenceIn(shards)).toBeUndefined();
    const zeros = join(folder, 'zeros.safetensors');
    await writeSparseModel(zeros, modelTensors(modelSizes(MIN_MODEL_BYTES)));
    expect(differenceIn(zeros)).toMatch(/^wrote another /);
    const few = join(folder, 'few.safetensors');
    await writeSparseModel(few, modelTensors(modelSizes(MIN_MODEL_BYTES)).slice(1));
    expect(differenceIn(few)).toBe('wrote 146 of 147 tensors');
  });
});

describe('a child', () => {
  async function script(text: string): Promise<{ file: string; args: string[] }> {
    const path = join(folder, `${Math.abs(text.length)}-${text.charCodeAt(0)}.mjs`);
    await writeFile(path, text);
    return { file: process.execPath, args: [path] };
  }

  test('that fails tells the line of its error, not the last one', async () => {
    const failing = runChild(await script('throw new RangeError("too much");'), signal);
    await expect(failing).rejects.toThrow(new ChildError('RangeError: too much'));
  });

  test('that is held stays until it is released', async () => {
    const text = 'console.log("7"); process.stdin.resume(); process.stdin.on("end", () => {});';
    const child = await holdChild<number>(await script(text), signal);
    expect(child.result).toBe(7);
    expect(() => process.kill(child.pid, 0)).not.toThrow();
    await child.release();
    expect(() => process.kill(child.pid, 0)).toThrow('ESRCH');
  });

  test('that ends without a line is an error', async () => {
    const held = holdChild(await script('process.exitCode = 3;'), signal);
    await expect(held).rejects.toThrow(ChildError);
  });
});
