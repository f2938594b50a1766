import { openAsBlob, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type ByteSource, openRemote, parse } from '../support/api.js';
import { filesOf, TWO_SHARDS } from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const BYTES = new Uint8Array(
  fileBytes([
    { name: 'a', dtype: 'F32', shape: [2, 3] },
    { name: 'b', dtype: 'U8', shape: [5] },
  ]),
);

/** A reader over memory, with overrides. */
function reader(others: Partial<ByteSource> = {}): ByteSource {
  return {
    byteLength: BYTES.length,
    read: async (begin, end) => BYTES.subarray(begin, end),
    ...others,
  };
}

describe('openRemote', () => {
  it.each([
    ['a Blob', new Blob([BYTES])],
    ['a File', new File([BYTES], 'model.safetensors')],
    ['a reader', reader()],
    [
      'a reader that gives Buffers',
      reader({ read: async (begin, end) => Buffer.from(BYTES.subarray(begin, end)) }),
    ],
  ])('reads %s', async (_, source) => {
    const checkpoint = await openRemote(source);
    expect(checkpoint.keys()).toEqual(['a', 'b']);
    expect((await checkpoint.getTensor('b')).bytes).toEqual(parse(BYTES).getTensor('b').bytes);
    expect((await checkpoint.getSlice('a', 1)).data).toEqual(parse(BYTES).getSlice('a', 1).data);
  });

  it('names what has a name by that, and others by what they are', async () => {
    const file = new File([BYTES], 'dropped.safetensors');
    const sources = [file, reader({ name: 's3://bucket/key' }), new Blob([BYTES]), reader()];
    const paths = sources.map(async (source) => (await openRemote(source)).path);
    expect(await Promise.all(paths)).toEqual([file.name, 's3://bucket/key', 'Blob', 'Object']);
  });

  it.each([undefined, -1, 7n])('refuses a reader of %s bytes', async (byteLength) => {
    const source = reader({ byteLength: byteLength as never });
    await expect(openRemote(source)).rejects.toThrow('byteLength of source must be an integer');
  });

  it.each([
    [undefined],
    [null],
    [{ byteLength: 3 }],
    [{ byteLength: -1, read() {} }],
    [{ byteLength: 1.5, read() {} }],
  ])('refuses %s', async (source) => {
    await expect(openRemote(source as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
  });

  it.each([
    [
      'too few bytes',
      async (begin: number, end: number) => BYTES.subarray(begin, end - 1),
      'bytes from read(0, ',
    ],
    ['too many bytes', async () => new Uint8Array(BYTES.length + 1), 'found'],
    ['no bytes', async () => undefined as never, 'must be a Uint8Array'],
    [
      'another kind of array',
      async () => new Float32Array(BYTES.length) as never,
      'must be a Uint8Array',
    ],
  ])('refuses %s from a reader', async (_, read, message) => {
    await expect(openRemote(reader({ read }))).rejects.toThrow(message);
  });

  it('passes on what a reader rejects with or throws', async () => {
    const reason = new Error('no such object');
    await expect(openRemote(reader({ read: async () => Promise.reject(reason) }))).rejects.toBe(
      reason,
    );
    const read = (): never => {
      throw reason;
    };
    await expect(openRemote(reader({ read }))).rejects.toBe(reason);
  });

  it('notices a reader that becomes shorter', async () => {
    const source = { ...reader() };
    const checkpoint = await openRemote(source);
    Object.assign(source, { byteLength: 10 });
    await expect(checkpoint.getTensor('a')).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
    });
    expect(checkpoint.ok).toBe(false);
  });

  it('notices that the file of a Blob has changed', async () => {
    const path = temporaryPath('blob.safetensors');
    writeFileSync(path, BYTES);
    const checkpoint = await openRemote(await openAsBlob(path));
    writeFileSync(path, BYTES.subarray(1));
    const error: unknown = await checkpoint.getTensor('a').catch((error: unknown) => error);
    expect(error).toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: 'Blob',
      cause: expect.objectContaining({ name: 'NotReadableError' }),
    });
    expect(checkpoint.ok).toBe(false);
  });

  it('gives a tensor memory that the reader does not have', async () => {
    const mine = BYTES.slice();
    const checkpoint = await openRemote(
      reader({ read: async (begin, end) => mine.subarray(begin, end) }),
    );
    const tensor = await checkpoint.getTensor('b');
    mine.fill(0);
    expect(tensor.bytes).toEqual(parse(BYTES).getTensor('b').bytes);
  });

  it('ends waiting for a reader that never answers, and tells it', async () => {
    let told: AbortSignal | undefined;
    const read = (_begin: number, _end: number, signal: AbortSignal): Promise<never> => {
      told = signal;
      return new Promise(() => {});
    };
    const reason = new Error('enough');
    const aborting = new AbortController();
    const opening = openRemote(reader({ read }), { signal: aborting.signal });
    aborting.abort(reason);
    await expect(opening).rejects.toBe(reason);
    expect(told?.aborted ?? true).toBe(true);
  });
});

describe('openRemote with files of a folder', () => {
  const blobs = (without = ''): Map<string, Blob> =>
    new Map(
      [...filesOf(TWO_SHARDS)]
        .filter(([name]) => name !== without)
        .map(([name, bytes]) => [name, new Blob([bytes as Uint8Array<ArrayBuffer>])]),
    );

  it('reads the index and its shards as one checkpoint', async () => {
    const checkpoint = await openRemote(blobs());
    expect(checkpoint.keys()).toEqual(['a.weight', 'b.bias', 'b.weight', 'embed']);
    expect([...(await checkpoint.getTensor('b.bias')).bytes]).toEqual([1, 2, 3, 4]);
    expect(await checkpoint.headers()).toHaveLength(2);
  });

  it('finds the shards beside an index that is in a folder', async () => {
    const below = new Map([...blobs()].map(([name, blob]) => [`model/${name}`, blob]));
    const checkpoint = await openRemote(below);
    expect([...(await checkpoint.getTensor('b.bias')).bytes]).toEqual([1, 2, 3, 4]);
  });

  it('names a shard that is not among them', async () => {
    const shard = 'model-00002-of-00002.safetensors';
    await expect(openRemote(blobs(shard))).rejects.toMatchObject({
      code: 'SAFETENSORS_MISSING_SHARDS',
      path: 'model.safetensors.index.json',
      message: expect.stringContaining(`found 1 of them missing: "${shard}"`),
    });
  });

  it('takes the only file, whatever its name, or all shards without an index, never one', async () => {
    const one = new Map([['x.safetensors', new Blob([BYTES])]]);
    expect((await openRemote(one)).keys()).toEqual(['a', 'b']);
    const shards = await openRemote(blobs('model.safetensors.index.json'));
    expect(shards.keys()).toEqual(['a.weight', 'b.bias', 'b.weight', 'embed']);
    expect([...(await shards.getTensor('b.bias')).bytes]).toEqual([1, 2, 3, 4]);
    const half = new Map([['x-00001-of-00002.safetensors', new Blob([BYTES])]]);
    await expect(openRemote(half)).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
  });

  it('refuses what is no Blob', async () => {
    await expect(openRemote(new Map([['a', 1]]) as never)).rejects.toThrow('"a" of source');
  });
});
