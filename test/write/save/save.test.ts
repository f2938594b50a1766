import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  type Dtype,
  InvalidTensorError,
  type SaveOptions,
  safeOpen,
  saveFile,
  serialize,
  type TensorInput,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { arbitraryTensor, arbitraryTensors } from './arbitrary-tensors.js';

type Tensors = Record<string, TensorInput<Dtype, never>>;

const QUICK = { durable: false } as const;

const SMALL: Tensors = {
  b: { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) },
  a: { dtype: 'F32', shape: [2], data: new Float32Array([0.5, -2]) },
};

let path: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
});

function sidecarsOf(): string[] {
  return readdirSync(dirname(path)).sort();
}

describe('saveFile', () => {
  test('writes what serialize gives, from memory and from a file', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbitraryTensors(20, arbitraryTensor()),
        fc.option(fc.dictionary(fc.string(), fc.string())),
        fc.nat(12).map((power) => 2 ** power),
        fc.nat(99),
        async (pairs, metadata, alignment, reserve) => {
          const options = { metadata, alignment, reserve };
          await saveFile(path, pairs, { ...options, ...QUICK });
          const expected = Buffer.from(serialize(pairs, options));
          expect(readFileSync(path).equals(expected)).toBe(true);
          for (const storage of ['mmap', 'read'] as const) {
            const file = safeOpen(path, { storage });
            const copy = temporaryPath('copy.safetensors');
            // Some from the file, others from memory.
            for (const name of file.keys().slice(3)) file.getTensor(name).data;
            await saveFile(copy, file, { ...options, ...QUICK });
            expect(readFileSync(copy).equals(expected)).toBe(true);
            file.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test.each([
    ['a string', (name: string) => name],
    ['a Buffer', (name: string) => Buffer.from(name)],
    ['a URL', (name: string) => pathToFileURL(name)],
  ])('the path can be %s', async (_, form) => {
    await saveFile(form(path), SMALL);
    expect(readFileSync(path)).toEqual(Buffer.from(serialize(SMALL)));
    expect(sidecarsOf()).toEqual(['model.safetensors']);
  });

  test('shared memory can be written', async () => {
    const data = new SharedArrayBuffer(5000);
    new Uint8Array(data).fill(7);
    const shared = { x: { dtype: 'U8', shape: [5000], data } } as const;
    await saveFile(path, shared, QUICK);
    expect(readFileSync(path)).toEqual(Buffer.from(serialize(shared)));
  });

  const lone = '\ud800';
  const bad: [string, unknown, object, object][] = [
    [
      'a wrong length',
      { x: { dtype: 'U8', shape: [2], data: new Uint8Array(3) } },
      {},
      { tensor: 'x' },
    ],
    [
      'an unknown dtype',
      { x: { dtype: 'U7', shape: [1], data: new Uint8Array(1) } },
      {},
      { tensor: 'x' },
    ],
    [
      'another array',
      { x: { dtype: 'F32', shape: [1], data: new Int32Array(1) } },
      {},
      { tensor: 'x' },
    ],
    [
      'data that is not bytes',
      { x: { dtype: 'U8', shape: [1], data: 'a' } },
      {},
      { code: 'ERR_INVALID_ARG_TYPE' },
    ],
    ['the name __metadata__', [['__metadata__', SMALL['a']]], {}, { tensor: '__metadata__' }],
    ['a lone surrogate', { [lone]: SMALL['a'] }, {}, { tensor: lone }],
    ['a name twice', [...Object.entries(SMALL), ['a', SMALL['a']]], {}, { tensor: 'a' }],
    [
      'metadata other than strings',
      SMALL,
      { metadata: { a: 1 } },
      { code: 'ERR_INVALID_ARG_TYPE' },
    ],
    ['a header above the limit', SMALL, { reserve: 1e8 }, { code: 'SAFETENSORS_HEADER_TOO_LARGE' }],
    ['an odd alignment', SMALL, { alignment: 3 }, { code: 'ERR_OUT_OF_RANGE' }],
    ['durable: 1', SMALL, { durable: 1 }, { message: 'durable must be a boolean, but is 1' }],
    ['no options', SMALL, null as never, { message: expect.stringContaining('options must be') }],
    ['no tensors', 3, {}, { code: 'ERR_INVALID_ARG_TYPE' }],
  ];

  test.each(bad)('%s is refused before anything is written', async (_, given, options, error) => {
    writeFileSync(path, 'old');
    await expect(saveFile(path, given as Tensors, options)).rejects.toMatchObject(error);
    // Errors of the arguments come first, even where no temporary file can be made.
    const nowhere = temporaryPath('missing/model');
    await expect(saveFile(nowhere, given as Tensors, options)).rejects.toMatchObject(error);
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(sidecarsOf()).toEqual(['model.safetensors']);
  });

  test('arguments may be changed right after the call', async () => {
    const tensor = { dtype: 'U8' as const, shape: [2], data: Uint8Array.of(1, 2) };
    const metadata = new Map([['key', 'old']]);
    const saving = saveFile(path, { x: tensor }, { metadata, ...QUICK });
    tensor.shape[0] = 9;
    tensor.data = new Uint8Array(9);
    metadata.set('key', 'new').set('more', '');
    await saving;
    const saved = safeOpen(path);
    expect(saved.getTensor('x').data).toEqual(Uint8Array.of(1, 2));
    expect([...(saved.metadata ?? [])]).toEqual([['key', 'old']]);
  });

  test.each(['mmap', 'read'] as const)(
    'a file may be closed right after the call (%s)',
    async (storage) => {
      await saveFile(path, SMALL, QUICK);
      const copy = temporaryPath('copy');
      for (const isUsed of [false, true]) {
        const file = safeOpen(path, { storage });
        if (isUsed) file.getTensor('a').data;
        const saving = saveFile(copy, file, QUICK);
        file.close();
        await saving;
        expect(readFileSync(copy)).toEqual(readFileSync(path));
      }
    },
  );

  test('faults of tensors come before those of metadata, and both before an abort', async () => {
    const signal = AbortSignal.abort(new Error('aborted'));
    function* metadata(): Generator<readonly [string, string]> {
      yield ['a', 'b'];
      throw new Error('in the metadata');
    }
    const bad = { x: { dtype: 'U8', shape: [2], data: new Uint8Array(3) } } as const;
    await expect(saveFile(path, bad, { metadata: metadata(), signal })).rejects.toThrow(
      'tensor "x"',
    );
    await expect(saveFile(path, SMALL, { metadata: metadata(), signal })).rejects.toThrow(
      'in the metadata',
    );
    await expect(saveFile(path, SMALL, { signal })).rejects.toThrow('aborted');
  });

  test('endless metadata is refused', async () => {
    function* endless(): Generator<readonly [string, string]> {
      for (let i = 0; ; i++) yield [`${i}`, 'x'.repeat(1_000_000)];
    }
    await expect(saveFile(path, SMALL, { metadata: endless() })).rejects.toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_LARGE',
    });
  });

  test('a number is refused as a path', async () => {
    await expect(saveFile(3 as never, SMALL)).rejects.toThrow(/^path must be a string/);
  });

  test('a detached buffer is refused', async () => {
    const data = new Float32Array(2);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    const saving = saveFile(path, { x: { dtype: 'F32', shape: [2], data } });
    await expect(saving).rejects.toBeInstanceOf(InvalidTensorError);
    expect(sidecarsOf()).toEqual([]);
  });

  test('of a closed file are written, unless it was detached', async () => {
    await saveFile(path, SMALL);
    const file = safeOpen(path);
    const used = file.getTensor('a');
    const unused = file.getTensor('b');
    used.data;
    file.close();
    const copy = temporaryPath('copy');
    await saveFile(copy, { used, unused });
    expect(safeOpen(copy).getTensor('used').data).toEqual(new Float32Array([0.5, -2]));
    expect(safeOpen(copy).getTensor('unused').bytes).toEqual(unused.bytes);
    const detached = safeOpen(path);
    const gone = detached.getTensor('b');
    detached.close({ detach: true });
    await expect(saveFile(copy, { used, gone })).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CLOSED',
      tensor: 'gone',
    });
    expect(safeOpen(copy).keys()).toEqual(['unused', 'used']);
  });

  test('a link is followed, a blob of the Hub cache refused', async () => {
    mkdirSync(temporaryPath('folder'));
    symlinkSync('folder/target', path);
    await saveFile(path, SMALL);
    expect(readFileSync(temporaryPath('folder/target'))).toEqual(Buffer.from(serialize(SMALL)));
    mkdirSync(temporaryPath('models--a--b/blobs'), { recursive: true });
    const blob = temporaryPath('models--a--b/blobs/0123');
    writeFileSync(blob, 'old');
    const link = temporaryPath('link');
    symlinkSync(blob, link);
    const refused = { code: 'SAFETENSORS_HUB_CACHE_BLOB', path: link };
    await expect(saveFile(link, SMALL)).rejects.toMatchObject(refused);
    expect(readdirSync(dirname(blob))).toEqual(['0123']);
    expect(readFileSync(blob, 'utf8')).toBe('old');
  });

  describe.each(['mmap', 'read'] as const)('over the file that it comes from (%s)', (storage) => {
    test.each([false, true])('whose bytes are in memory: %s', async (areUsed) => {
      const data = Uint8Array.from({ length: 100_000 }, (_, i) => i % 251);
      await saveFile(path, { x: { dtype: 'U8', shape: [100_000], data }, ...SMALL });
      const file = safeOpen(path, { storage });
      const x = file.getTensor('x');
      const old = areUsed ? x.bytes : undefined;
      await saveFile(path, { y: x, z: x, ...SMALL });
      const saved = safeOpen(path);
      expect(saved.keys()).toEqual(['a', 'b', 'y', 'z']);
      for (const name of ['y', 'z']) {
        expect(Buffer.compare(saved.getTensor(name).bytes, data)).toBe(0);
      }
      // The old file goes on under its handle.
      if (old !== undefined) expect(Buffer.compare(old, data)).toBe(0);
      expect(file.getTensor('a').data).toEqual(new Float32Array([0.5, -2]));
      file.close();
      expect(sidecarsOf()).toEqual(['model.safetensors']);
    });
  });

  test('the last of several saves to one path is there, whole', async () => {
    const contents = Array.from({ length: 8 }, (_, i) => ({
      x: { dtype: 'U8', shape: [300_000], data: new Uint8Array(300_000).fill(i) } as const,
    }));
    const saved = contents.map((content) => Buffer.from(serialize(content)));
    await Promise.all(contents.map((content) => saveFile(path, content, QUICK)));
    expect(saved.some((bytes) => bytes.equals(readFileSync(path)))).toBe(true);
    await Promise.all(
      contents.map((content, i) => saveFile(temporaryPath(`model-${i}`), content, QUICK)),
    );
    for (const [i, bytes] of saved.entries()) {
      expect(readFileSync(temporaryPath(`model-${i}`)).equals(bytes)).toBe(true);
    }
    expect(sidecarsOf()).toHaveLength(9);
  });

  const large = { x: { dtype: 'U8', shape: [3e7], data: new Uint8Array(3e7) } } as const;

  async function ends(options: SaveOptions, reason: unknown): Promise<void> {
    writeFileSync(path, 'old');
    await expect(saveFile(path, large, options)).rejects.toBe(reason);
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(sidecarsOf()).toEqual(['model.safetensors']);
  }

  test('reports progress, and at the end the length of the file', async () => {
    const seen: number[] = [];
    await saveFile(path, large, { ...QUICK, onProgress: ({ bytes }) => seen.push(bytes) });
    expect(seen.at(-1)).toBe(readFileSync(path).length);
    expect(seen.filter((bytes) => bytes === seen.at(-1))).toHaveLength(1);
    expect(seen.toSorted((a, b) => a - b)).toEqual(seen);
  });

  test('is aborted before it writes, while it writes, and while it syncs', async () => {
    // It is the caller's, also when it looks like one of the system.
    const reason = Object.assign(new Error('enough'), { code: 'ECONNRESET', errno: -104 });
    await ends({ signal: AbortSignal.abort(reason) }, reason);
    const nowhere = saveFile(temporaryPath('missing/model'), large, {
      signal: AbortSignal.abort(reason),
    });
    await expect(nowhere).rejects.toBe(reason);
    const writing = new AbortController();
    setImmediate(() => writing.abort(reason));
    await ends({ signal: writing.signal }, reason);
    // The last report comes when all is written.
    const syncing = new AbortController();
    await ends({ signal: syncing.signal, onProgress: () => syncing.abort(reason) }, reason);
  });

  test('ends with what onProgress throws', async () => {
    const reason = new Error('in the callback');
    const onProgress = (): never => {
      throw reason;
    };
    await ends({ onProgress }, reason);
  });

  test.each([{ signal: 3 }, { onProgress: 3 }])('%o is a TypeError', async (options) => {
    await expect(saveFile(path, SMALL, options as never)).rejects.toBeInstanceOf(TypeError);
    expect(sidecarsOf()).toEqual([]);
  });
});
