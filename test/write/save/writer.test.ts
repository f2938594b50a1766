/** Files written tensor by tensor. */

import {
  chmodSync,
  createReadStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import type { WriterData } from '../../../src/write/save/writer.js';
import { createWriter, type SafetensorsWriter, safeOpen, serialize } from '../../support/api.js';
import { countedBytes, temporaryPath } from '../../support/make-file.js';
import { arbitraryTensor, arbitraryTensors } from './arbitrary-tensors.js';

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

describe('the bytes are those of serialize', () => {
  test('in any order, several at a time', async () => {
    const options = { metadata: { format: 'pt' }, alignment: 64, reserve: 10 };
    const writer = await createWriter(path, new Map(Object.entries(SPECS)), options);
    expect(writer.path).toBe(path);
    await Promise.all([writer.write('b', B), writer.write('a', A)]);
    expect(names()).toHaveLength(1);
    expect(names()[0]).toMatch(/^\.safetensors-mmap-.*\.tmp$/);
    await writer.close();
    const tensors = { a: { ...SPECS.a, data: A }, b: { ...SPECS.b, data: B } };
    expect(readFileSync(path)).toEqual(Buffer.from(serialize(tensors, options)));
    expect(names()).toEqual(['model.safetensors']);
  });

  test.each<[string, () => WriterData]>([
    ['raw bytes', () => new Uint8Array(B.buffer)],
    ['a Buffer', () => Buffer.from(B.buffer)],
    ['an ArrayBuffer', () => B.buffer],
    ['an array of pieces', () => [B.subarray(0, 1), new Uint8Array(0), B.subarray(1)]],
    [
      'a generator that uses its memory again',
      function* () {
        const piece = new Float32Array(1);
        for (const value of B) {
          piece[0] = value;
          yield piece;
        }
      },
    ],
    ['a Node stream', () => Readable.from([...new Uint8Array(B.buffer)].map((v) => Buffer.of(v)))],
    ['a web stream', () => new Blob([B]).stream() as unknown as AsyncIterable<Uint8Array>],
    ['a function', () => () => B],
    ['a function that promises pieces', () => async () => [B.subarray(0, 3), B.subarray(3)]],
  ])('from %s', async (_, data) => {
    const writer = await create();
    await writer.write('a', A);
    await writer.write('b', data());
    await writer.close();
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });

  test('whatever the tensors', async () => {
    const inPieces = fc
      .tuple(arbitraryTensor(), fc.array(fc.nat(20), { maxLength: 3 }))
      .map(([tensor, cuts]) => {
        const { data } = tensor;
        const bounds = [0, ...cuts.sort((a, b) => a - b), data.length];
        const pieces = bounds.slice(1).map((end, i) => data.subarray(bounds[i], end));
        return { ...tensor, pieces };
      });
    const tensors = arbitraryTensors(6, inPieces);
    await fc.assert(
      fc.asyncProperty(tensors, fc.boolean(), async (pairs, areCut) => {
        const writer = await createWriter(path, pairs, { durable: false });
        const writes = pairs
          .reverse()
          .map(([key, { data, pieces }]) => writer.write(key, areCut ? pieces : data));
        await Promise.all(writes);
        await writer.close();
        expect(readFileSync(path).equals(serialize(pairs))).toBe(true);
      }),
      { numRuns: 50 },
    );
  });

  test('from a file, and from the tensors of the very file that is replaced', async () => {
    const shape = [5 * MIB];
    const data = countedBytes(5 * MIB);
    const whole = serialize({ a: { dtype: 'U8', shape, data }, b: { dtype: 'U8', shape, data } });
    writeFileSync(path, whole);
    const file = safeOpen(path);
    const specs = ['a', 'b'].map((name) => [name, file.info(name)] as const);
    const writer = await createWriter(path, specs, { durable: false });
    const start = whole.length - 5 * MIB;
    await writer.write('b', createReadStream(path, { start }));
    await writer.write('a', file.getTensor('a').chunks({ maxByteLength: MIB }));
    await writer.close();
    file.close();
    expect(readFileSync(path).equals(whole)).toBe(true);
  });
});

test("what is declared does not change with the caller's array", async () => {
  const shape = [3];
  const writer = await createWriter(path, { a: { dtype: 'U8', shape } });
  shape[0] = 4;
  await expect(writer.write('a', new Uint8Array(4))).rejects.toThrow('expected 3 bytes');
  await writer.write('a', A);
  await writer.close();
  expect(readFileSync(path)).toEqual(Buffer.from(serialize({ a: { ...SPECS.a, data: A } })));
});

test('links are followed, permissions are kept, and a file may have no tensors', async () => {
  mkdirSync(temporaryPath('folder'));
  writeFileSync(temporaryPath('folder/target'), 'old');
  chmodSync(temporaryPath('folder/target'), 0o640);
  symlinkSync('folder/target', path);
  const writer = await createWriter(Buffer.from(path), {});
  await writer.close();
  expect(readFileSync(temporaryPath('folder/target'))).toEqual(Buffer.from(serialize({})));
  expect(statSync(path).mode & 0o777).toBe(0o640);
});

describe('createWriter refuses', () => {
  test.each<[string, unknown, unknown, string]>([
    ['unknown dtypes', { a: { dtype: 'X', shape: [] } }, {}, 'SAFETENSORS_INVALID_TENSOR_VIEW'],
    ['missing shapes', { a: { dtype: 'U8' } }, {}, 'SAFETENSORS_INVALID_TENSOR_VIEW'],
    [
      'names given twice',
      [
        ['a', SPECS.a],
        ['a', SPECS.a],
      ],
      {},
      'SAFETENSORS_INVALID_TENSOR_VIEW',
    ],
    ['null for a spec', { a: null }, {}, 'ERR_INVALID_ARG_TYPE'],
    ['no specs', undefined, {}, 'ERR_INVALID_ARG_TYPE'],
    ['metadata other than strings', SPECS, { metadata: { a: 1 } }, 'ERR_INVALID_ARG_TYPE'],
    ['an alignment of 3', SPECS, { alignment: 3 }, 'ERR_OUT_OF_RANGE'],
    ['durable: 1', SPECS, { durable: 1 }, 'ERR_INVALID_ARG_TYPE'],
    ['null for the options', SPECS, null, 'ERR_INVALID_ARG_TYPE'],
  ])('%s', async (_, specs, options, code) => {
    await expect(createWriter(path, specs as never, options as never)).rejects.toMatchObject({
      code,
    });
    expect(names()).toEqual([]);
  });

  test('missing folders, and files that the disk has no room for', async () => {
    await expect(createWriter(`${path}/x`, SPECS)).rejects.toMatchObject({ code: 'ENOENT' });
    const large = { a: { dtype: 'U8', shape: [2 ** 52] } } as const;
    await expect(createWriter(path, large)).rejects.toMatchObject({ code: 'EFBIG', path });
    expect(names()).toEqual([]);
  });
});

describe('a write', () => {
  test.each<[string, WriterData, string]>([
    ['too few bytes', new Uint8Array(2), 'expected 3 bytes for U8 of shape [3], found 2'],
    ['too many bytes', new Uint8Array(4), 'expected 3 bytes for U8 of shape [3], found 4'],
    ['a shorter stream', [new Uint8Array(2)], 'expected 3 bytes from its stream, found 2'],
    ['a longer stream', [A, A], 'expected 3 bytes from its stream, found 6 or more'],
    ['another typed array', B, 'expected the data of U8 to be a Uint8Array, found a Float32Array'],
  ])('of %s is refused and may be tried again', async (_, data, message) => {
    const writer = await create();
    await expect(writer.write('a', data)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: `tensor "a": ${message}`,
      tensor: 'a',
    });
    await Promise.all([writer.write('b', B), writer.write('a', A)]);
    await writer.close();
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });

  test.each([null, undefined, 'abc', 1, {}, [1, 2, 3], () => 1])(
    'of %j is a TypeError',
    async (data) => {
      await using writer = await create();
      await expect(writer.write('a', data as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringContaining('tensor "a"'),
      });
    },
  );

  test('of memory that is transferred meanwhile is refused and may be tried again', async () => {
    const writer = await createWriter(path, { a: SPECS.a });
    const bytes = Uint8Array.from(A);
    const writing = writer.write('a', bytes);
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    await expect(writing).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'a',
    });
    await writer.write('a', A);
    await writer.close();
    expect(safeOpen(path).getTensor('a').data).toEqual(A);
  });

  test('of an unknown name names near ones', async () => {
    await using writer = await createWriter(path, { 'layer.weight': SPECS.a });
    await expect(writer.write('layer.wieght', A)).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
      path,
      message: expect.stringContaining('did you mean "layer.weight"?'),
    });
    await expect(writer.write(1 as never, A)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
  });

  test('of a tensor that is written, or under way, is refused', async () => {
    await using writer = await create();
    const first = writer.write('a', A);
    await expect(writer.write('a', A)).rejects.toMatchObject({
      code: 'SAFETENSORS_ALREADY_WRITTEN',
      message: `${path}: tensor "a": expected every tensor to be written once, found its writing under way`,
    });
    await first;
    await expect(writer.write('a', A)).rejects.toThrow('once, found it written');
  });

  test('ends a stream that it leaves early, and throws its errors as they are', async () => {
    await using writer = await create();
    const ends: string[] = [];
    const tooLong = (function* () {
      try {
        for (;;) yield A;
      } finally {
        ends.push('ended');
      }
    })();
    await expect(writer.write('a', tooLong)).rejects.toThrow('found 6 or more');
    expect(ends).toEqual(['ended']);
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield A.subarray(0, 1);
      throw new Error('gone');
    };
    await expect(writer.write('a', failing())).rejects.toThrow('gone');
    await writer.write('a', A);
  });
});

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

  test('names the only one that is missing', async () => {
    await using writer = await create();
    await writer.write('a', A);
    await expect(writer.close()).rejects.toThrow(
      /: expected all 2 tensors to be written, but 1 are not: "b"$/,
    );
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
    await expect(writer.write('a', A)).rejects.toMatchObject(closed);
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

  test('ends writes from memory and from streams, even one that gives nothing', async () => {
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

  test('leaves nothing at once when nothing is under way, else when that has ended', async () => {
    const idle = await create();
    const ending = idle.abort();
    expect(names()).toEqual([]);
    await ending;
    const writer = await create();
    const write = writer.write('a', new Readable({ read() {} }));
    const failed = expect(write).rejects.toMatchObject(aborted);
    const aborting = writer.abort();
    expect(names()).toHaveLength(1);
    await Promise.all([failed, aborting]);
    expect(names()).toEqual([]);
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
