/** The trials as data, and what their children share. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkHeader } from '../benchmarks/children/check-header.js';
import { tensorPlacesOf } from '../benchmarks/children/plain-header.js';
import { prepareDriver } from '../benchmarks/driver-command.js';
import { OURS, PLAIN_MAPPING, READERS, TORCH_LOAD } from '../benchmarks/drivers.js';
import type { Equipment } from '../benchmarks/equipment.js';
import { manySmallTensors } from '../benchmarks/many-tensors.js';
import { ChildError, holdChild, runChild } from '../benchmarks/run-child.js';
import { encodeHeader } from '../benchmarks/write-model.js';
import { parse } from '../src/index.js';

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
