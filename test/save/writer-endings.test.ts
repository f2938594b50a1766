/** How a writer ends: closed, aborted, killed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { createWriter, type SafetensorsWriter, safeOpen, serialize } from '../../src/index.js';
import { countedBytes, temporaryPath } from '../support/make-file.js';
import { childPath } from '../support/run-child.js';

const MIB = 2 ** 20;
const SPECS = { a: { dtype: 'U8', shape: [3] }, b: { dtype: 'F32', shape: [2, 2] } } as const;
const A = countedBytes(3);
const B = new Float32Array([1, 2, 3, 4]);
const WHOLE = serialize({ a: { ...SPECS.a, data: A }, b: { ...SPECS.b, data: B } });

let path: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
});

const names = (): string[] => readdirSync(dirname(path));
const create = (): Promise<SafetensorsWriter> => createWriter(path, SPECS, { durable: false });

describe('close', () => {
  test('names what is missing and leaves the writer open', async () => {
    const shape = [1];
    const specs = Array.from({ length: 8 }, (_, i) => [`t${i}`, { dtype: 'U8', shape }] as const);
    writeFileSync(path, 'old');
    const writer = await createWriter(path, specs);
    await writer.write('t3', countedBytes(1));
    await expect(writer.close()).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSORS_MISSING',
      path,
      message:
        `${path}: expected all 8 tensors to be written, but 7 are not: ` +
        '"t0", "t1", "t2", "t4", "t5" and 2 more',
    });
    expect(readFileSync(path, 'utf8')).toBe('old');
    for (const [name] of specs) if (name !== 't3') await writer.write(name, countedBytes(1));
    await writer.close();
    expect(safeOpen(path).size).toBe(8);
  });

  test('waits for the writes under way', async () => {
    const writer = await create();
    const slow = async function* (): AsyncGenerator<Uint8Array> {
      await delay(20);
      yield A;
    };
    const writes = [writer.write('a', slow()), writer.write('b', B)];
    await writer.close();
    await Promise.all(writes);
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });

  test('ends the writer', async () => {
    const writer = await create();
    await Promise.all([writer.write('a', A), writer.write('b', B)]);
    const closing = writer.close();
    await expect(writer.write('a', A)).rejects.toThrow('but it is being closed');
    await closing;
    const closed = {
      code: 'SAFETENSORS_WRITER_CLOSED',
      path,
      message: expect.stringMatching(/is closed$/),
    };
    await expect(writer.write('a', A)).rejects.toMatchObject(closed);
    await expect(writer.close()).rejects.toMatchObject(closed);
    await writer.abort();
    await writer[Symbol.asyncDispose]();
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });
});

describe('abort', () => {
  const aborted = {
    code: 'SAFETENSORS_WRITER_CLOSED',
    message: expect.stringMatching(/was aborted$/),
  };

  test('leaves the old file and nothing else', async () => {
    writeFileSync(path, 'old');
    const writer = await create();
    await writer.write('a', A);
    await writer.abort();
    expect(names()).toEqual(['model.safetensors']);
    expect(readFileSync(path, 'utf8')).toBe('old');
    await expect(writer.write('b', B)).rejects.toMatchObject(aborted);
    await expect(writer.close()).rejects.toMatchObject(aborted);
    await writer.abort();
  });

  test('ends writes from memory, and streams, also one that gives nothing', async () => {
    const shape = [64 * MIB];
    const specs = ['a', 'b', 'c'].map((name) => [name, { dtype: 'U8', shape }] as const);
    const writer = await createWriter(path, specs, { durable: false });
    const ends: string[] = [];
    let start = (): void => {};
    const started = new Promise<void>((resolve) => (start = resolve));
    const endless = (function* () {
      try {
        for (; ; start()) yield new Uint8Array(MIB);
      } finally {
        ends.push('ended');
      }
    })();
    const silent = new Readable({ read() {} });
    const writes = [writer.write('b', endless), writer.write('c', silent)];
    await started;
    writes.push(writer.write('a', new Uint8Array(64 * MIB)));
    const results = Promise.allSettled(writes);
    const closing = writer.close().catch((error) => error);
    await writer.abort();
    expect(names()).toEqual([]);
    const rejected = { status: 'rejected', reason: expect.objectContaining(aborted) };
    expect(await results).toEqual([rejected, rejected, rejected]);
    expect(ends).toEqual(['ended']);
    expect(await closing).toMatchObject(aborted);
  });

  test('is what `await using` does, unless the writer is closed', async () => {
    {
      await using writer = await create();
      await writer.write('a', A);
    }
    expect(names()).toEqual([]);
    {
      await using writer = await create();
      await Promise.all([writer.write('a', A), writer.write('b', B)]);
      await writer.close();
    }
    expect(names()).toEqual(['model.safetensors']);
  });
});

test.runIf(process.platform !== 'win32')(
  'a process that is killed leaves a whole file',
  async () => {
    const size = 100_000;
    const old = new Uint8Array(size);
    const tensor = { dtype: 'U8', shape: [size], data: old } as const;
    writeFileSync(path, serialize({ a: tensor, b: tensor }));
    for (let run = 0; run < 8; run++) {
      const child = spawn(process.execPath, [
        childPath('save/children/write-forever.mjs'),
        path,
        `${size}`,
      ]);
      await once(child.stdout, 'data');
      await delay(Math.random() * 60);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const file = safeOpen(path, { storage: 'read' });
      const values = ['a', 'b'].flatMap((name) => [...new Set(file.getTensor(name).bytes)]);
      expect(values[0]).toBe(values[1]);
      expect(values).toHaveLength(2);
      file.close();
    }
  },
  60_000,
);
