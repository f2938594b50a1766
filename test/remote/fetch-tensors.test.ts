import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RemoteError } from '../../src/errors/errors.js';
import { openRemote } from '../../src/remote/browser.js';
import { FETCHED_PIECE_BYTE_LENGTH } from '../../src/remote/fetch-plan.js';
import { FIRST_BYTE_LENGTH } from '../../src/remote/read-header.js';
import { DTYPES, type Dtype, parse, safeOpen, saveFile, serialize } from '../support/api.js';
import { type CountedFiles, countedCheckpoint, countedFile } from '../support/counted-source.js';
import { TWO_SHARDS } from '../support/make-checkpoint.js';
import { type Entry, fileBytes, temporaryPath } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';
import { shapeAndIndex } from '../tensor/slice-oracle.js';
import { arbitraryTensor, arbitraryTensors } from '../write/save/arbitrary-tensors.js';

const FILE = 'model.safetensors';
const MIB = 2 ** 20;

/** A tensor of so many rows of 1 MiB. */
function rows(name: string, count: number): Entry {
  return { name, dtype: 'U8', shape: [count, MIB] };
}

/** Begin and end in MiB of the data of the requests so far, which it forgets. */
function rangesOf(files: CountedFiles, dataStart: number): number[][] {
  return files
    .take()
    .map(({ begin, end }) => [(begin - dataStart) / MIB, (end - dataStart) / MIB])
    .sort(([a = 0], [b = 0]) => a - b);
}

async function opened(entries: readonly Entry[], options = {}) {
  const bytes = fileBytes(entries);
  const files = countedFile(bytes);
  const checkpoint = await files.open(FILE, options);
  files.take();
  const local = parse(bytes);
  const dataStart = 8 + Number(Buffer.from(bytes).readBigUInt64LE());
  return { files, checkpoint, local, dataStart };
}

describe('tensors are those of the local file', () => {
  it('for every dtype, shape and order', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbitraryTensors(6, arbitraryTensor()),
        fc.nat(40),
        fc.infiniteStream(fc.nat()),
        async (tensors, maxGapByteLength, order) => {
          const bytes = serialize(tensors);
          const checkpoint = await countedFile(bytes).open(FILE);
          const local = parse(bytes);
          const keys = local.keys().map((name) => ({ name, at: order.next().value as number }));
          const names = keys.sort((a, b) => a.at - b.at).map(({ name }) => name);
          const fetched = await checkpoint.readTensors(names, { maxGapByteLength });
          expect([...fetched.keys()]).toEqual(names);
          for (const [name, tensor] of fetched) {
            const expected = local.getTensor(name);
            expect(tensor.toJSON()).toEqual(expected.toJSON());
            expect(tensor.bytes).toEqual(expected.bytes);
            expect(tensor.buffer.byteLength).toBe(tensor.byteLength);
          }
          expect([...(await checkpoint.readTensors()).keys()]).toEqual(local.offsetKeys());
        },
      ),
      { numRuns: nightly(100, 40) },
    );
  });

  it.each(Object.keys(DTYPES) as Dtype[])('sliced by any index, for %s', async (dtype) => {
    const { bits } = DTYPES[dtype];
    await fc.assert(
      fc.asyncProperty(shapeAndIndex(4), async ([dimensions, index]) => {
        // Packed elements share bytes: as rows of whole bytes they can be cut.
        const shape = bits < 8 ? [...dimensions, 4] : dimensions;
        const bytes = fileBytes([
          { name: 'before', dtype: 'U8', shape: [3] },
          { name: 't', dtype, shape },
        ]);
        const files = countedFile(bytes);
        const checkpoint = await files.open(FILE);
        const local = parse(bytes);
        const whole = bits < 8 && index.includes('...') ? [...index, null] : index;
        const slice = await checkpoint.getSlice('t', ...whole);
        const expected = local.getSlice('t', ...whole);
        expect(slice.toJSON()).toEqual(expected.toJSON());
        expect(slice.bytes).toEqual(expected.bytes);
      }),
      { numRuns: nightly(40, 15) },
    );
  });

  it('for a part of a rank', async () => {
    const { checkpoint, local } = await opened([{ name: 't', dtype: 'I16', shape: [4, 6] }]);
    for (const partition of [
      { rank: 1, worldSize: 2 },
      { rank: 2, worldSize: 3, dim: -1 },
    ]) {
      const part = await checkpoint.getPartition('t', partition);
      const { dim = 0, rank, worldSize } = partition;
      const length = ([4, 6].at(dim) as number) / worldSize;
      const range = [rank * length, (rank + 1) * length] as const;
      const expected = local.getSlice('t', ...(dim === 0 ? [range] : [null, range]));
      expect(part.bytes).toEqual(expected.bytes);
    }
    await expect(checkpoint.getPartition('t', { rank: 0, worldSize: 3 })).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_DIVISIBLE',
      tensor: 't',
    });
  });

  it('with memory of their own, new by every call, that nothing else refers to', async () => {
    const { checkpoint } = await opened([{ name: 't', dtype: 'U8', shape: [4] }]);
    const [one, other] = [await checkpoint.getTensor('t'), await checkpoint.getTensor('t')];
    one.bytes.fill(0);
    checkpoint.close();
    expect([...other.bytes]).toEqual([1, 2, 3, 4]);
  });

  it('which can be saved', async () => {
    const { checkpoint, local } = await opened([{ name: 't', dtype: 'F32', shape: [3] }]);
    const path = temporaryPath('saved.safetensors');
    await saveFile(path, { t: await checkpoint.getTensor('t') });
    expect(safeOpen(path).getTensor('t').bytes).toEqual(local.getTensor('t').bytes);
  });

  it('and an alias is the kept one, fetched once', async () => {
    const files = countedCheckpoint(TWO_SHARDS);
    const checkpoint = await files.open('model.safetensors.index.json');
    const tensors = await checkpoint.readTensors(['lm_head.weight', 'embed', 'lm_head.weight']);
    expect([...tensors.keys()]).toEqual(['lm_head.weight', 'embed']);
    expect(tensors.get('lm_head.weight')).toBe(tensors.get('embed'));
    expect(files.take().length).toBe(3);
  });
});

describe('requests', () => {
  it('fetch one row of a large table, and not one byte more', async () => {
    const { files, checkpoint, dataStart } = await opened([rows('a', 1), rows('t', 20)]);
    await checkpoint.getSlice('t', 7);
    expect(rangesOf(files, dataStart)).toEqual([[8, 9]]);
  });

  it('fetch nothing for what is empty', async () => {
    const { files, checkpoint } = await opened([{ name: 't', dtype: 'F32', shape: [0, 3] }]);
    expect((await checkpoint.getTensor('t')).bytes.length).toBe(0);
    expect((await checkpoint.getSlice('t', [0, 0])).shape).toEqual([0, 3]);
    expect(files.requests).toEqual([]);
  });

  it('fetch runs that are far apart one by one, and near ones together', async () => {
    const entries = [{ name: 't', dtype: 'U8', shape: [4, 100_000] }] as const;
    const { files, checkpoint, dataStart } = await opened(entries);
    await checkpoint.getSlice('t', '::2, :10');
    expect(files.take().map(({ begin, end }) => [begin - dataStart, end - dataStart])).toEqual([
      [0, 10],
      [200_000, 200_010],
    ]);
    // 65 536 bytes lie between the rows' ends and beginnings.
    await checkpoint.getSlice('t', ':2, 65536:');
    expect(files.take().length).toBe(1);
    await checkpoint.getSlice('t', ':2, 65537:');
    expect(files.take().length).toBe(2);
  });

  it('join tensors up to the gap, in the order of the file, whatever order they are asked in', async () => {
    const entries = ['a', 'b', 'c', 'd'].map((name) => ({
      name,
      dtype: 'U8' as const,
      shape: [1000],
    }));
    const { files, checkpoint, dataStart } = await opened(entries);
    await checkpoint.readTensors(['d', 'a', 'b']);
    expect(files.take().map(({ begin, end }) => [begin - dataStart, end - dataStart])).toEqual([
      [0, 4000],
    ]);
    await checkpoint.readTensors(['d', 'a', 'b'], { maxGapByteLength: 999 });
    expect(files.take().map(({ begin, end }) => [begin - dataStart, end - dataStart])).toEqual([
      [0, 2000],
      [3000, 4000],
    ]);
  });

  it('cut a long tensor, and fetch its pieces beside each other', async () => {
    const { files, checkpoint, local, dataStart } = await opened([rows('t', 20)]);
    files.delayMs = 20;
    const tensor = await checkpoint.getTensor('t');
    expect(Buffer.compare(tensor.bytes, local.getTensor('t').bytes)).toBe(0);
    expect(rangesOf(files, dataStart)).toEqual([
      [0, 8],
      [8, 16],
      [16, 20],
    ]);
    expect(files.mostUnderWay).toBe(3);
  });

  it.each([1, 3, 8])('are no more than %i at a time, over all calls', async (concurrency) => {
    const names = Array.from({ length: 12 }, (_, i) => `t${i}`);
    // No two are near each other, so each takes a request.
    const entries = names.flatMap((name) => [rows(name, 1), rows(`behind ${name}`, 1)]);
    const { files, checkpoint } = await opened(entries, { concurrency });
    files.delayMs = 5;
    const calls = names.map((name) => checkpoint.getTensor(name));
    await Promise.all([...calls, checkpoint.readTensors(names, { maxGapByteLength: 0 })]);
    expect(files.mostUnderWay).toBe(concurrency);
  });

  it('of many small tensors between large ones are pieces of full length', async () => {
    const entries = Array.from({ length: 20 }, (_, i) =>
      i % 2 === 0 ? rows(`t${i}`, 3) : { name: `t${i}`, dtype: 'U8' as const, shape: [1000] },
    );
    const { files, checkpoint, local, dataStart } = await opened(entries);
    const tensors = await checkpoint.readTensors();
    const byteLength = local.byteLength() - dataStart;
    for (const [name, tensor] of tensors) {
      expect(Buffer.compare(tensor.bytes, local.getTensor(name).bytes)).toBe(0);
    }
    expect(files.requests.length).toBe(Math.ceil(byteLength / FETCHED_PIECE_BYTE_LENGTH));
    expect(files.byteLength).toBe(byteLength);
  });

  it('of a shard begin when its header is there, and only those of shards that are needed do', async () => {
    const files = countedCheckpoint(TWO_SHARDS);
    const checkpoint = await files.open('model.safetensors.index.json');
    await checkpoint.readTensors(['b.bias']);
    const shard = 'model-00002-of-00002.safetensors';
    expect(files.take().slice(1)).toMatchObject([{ name: shard, begin: 0 }, { name: shard }]);
  });
});

describe('a fetch', () => {
  it('tells its progress, and at the end that all has come', async () => {
    const { files, checkpoint } = await opened([rows('t', 20)]);
    files.delayMs = 150;
    const told: number[] = [];
    await checkpoint.getTensor('t', {
      onProgress: ({ bytes, totalBytes }) => {
        expect(totalBytes).toBe(20 * MIB);
        told.push(bytes);
      },
    });
    expect(told.at(-1)).toBe(20 * MIB);
    expect(told.length).toBeGreaterThan(1);
  });

  it('ends with what onProgress throws', async () => {
    const { files, checkpoint } = await opened([rows('t', 20)], { concurrency: 1 });
    files.delayMs = 150;
    const reason = new Error('enough');
    const onProgress = (): never => {
      throw reason;
    };
    await expect(checkpoint.getTensor('t', { onProgress })).rejects.toBe(reason);
    expect(files.requests.length).toBe(1);
  });

  it('ends all of its requests when one fails, and rejects with its error', async () => {
    const { files, checkpoint } = await opened([rows('t', 40)], { concurrency: 3 });
    files.delayMs = 10_000;
    const reason = new Error('no');
    files.onRequest = () => {
      if (files.underWay === 3) throw reason;
    };
    await expect(checkpoint.getTensor('t')).rejects.toBe(reason);
    expect([files.underWay, files.requests.length]).toEqual([0, 3]);
  });

  it('ends at once by its signal, without other calls', async () => {
    const { files, checkpoint } = await opened([rows('a', 20), rows('b', 1)]);
    const release = files.hold();
    const aborting = new AbortController();
    const ended = checkpoint.getTensor('a', { signal: aborting.signal });
    await expect.poll(() => files.underWay).toBe(3);
    const other = checkpoint.getTensor('b');
    await expect.poll(() => files.underWay).toBe(4);
    aborting.abort('enough');
    await expect(ended).rejects.toBe('enough');
    expect([files.aborted, files.underWay]).toEqual([3, 1]);
    release();
    expect((await other).shape).toEqual([1, MIB]);
    await expect(checkpoint.getTensor('a', { signal: aborting.signal })).rejects.toBe('enough');
  });

  it('of a slice takes options behind the index', async () => {
    const { files, checkpoint } = await opened([rows('t', 2)]);
    let told = 0;
    const onProgress = (): void => {
      told++;
    };
    expect((await checkpoint.getSlice('t', 1, null, { onProgress })).byteLength).toBe(MIB);
    expect((await checkpoint.getSlice('t', { onProgress })).byteLength).toBe(2 * MIB);
    expect(told).toBe(2);
    files.delayMs = 10_000;
    const aborting = new AbortController();
    const ended = checkpoint.getSlice('t', [0, 1], { signal: aborting.signal });
    aborting.abort('enough');
    await expect(ended).rejects.toBe('enough');
    const wrong = checkpoint.getSlice('t', { start: 0 } as never);
    await expect(wrong).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_VALUE' });
  });

  it('names the tensor when its request fails, and no tensor when it was for several', async () => {
    const { files, checkpoint } = await opened([rows('a', 1), rows('b', 1)]);
    const path = 'https://models.example/model.safetensors';
    files.onRequest = () => {
      throw new RemoteError('SAFETENSORS_REMOTE_UNAVAILABLE', 'no answer', { path, status: 503 });
    };
    await expect(checkpoint.getTensor('a')).rejects.toMatchObject({
      message: `${path}: tensor "a": no answer`,
      ...{ code: 'SAFETENSORS_REMOTE_UNAVAILABLE', path, tensor: 'a', status: 503 },
    });
    await expect(checkpoint.readTensors()).rejects.toThrow(`${path}: no answer`);
  });

  it('says so when there is no memory', async () => {
    const byteLength = 2 ** 43;
    const file = { t: { dtype: 'U8', shape: [byteLength], data_offsets: [0, byteLength] } };
    const header = new TextEncoder().encode(JSON.stringify(file));
    const start = new Uint8Array(100_000);
    start[0] = header.length;
    start.set(header, 8);
    const checkpoint = await openRemote({
      byteLength: 8 + header.length + byteLength,
      read: async (begin, end) => start.slice(begin, end),
    });
    await expect(checkpoint.getTensor('t')).rejects.toMatchObject({
      code: 'SAFETENSORS_OUT_OF_MEMORY',
      tensor: 't',
    });
  });

  it('leaves nothing under way after 1 000 aborts', async () => {
    const { files, checkpoint } = await opened([rows('t', 1)]);
    files.delayMs = 10_000;
    const reasons = await Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        const aborting = new AbortController();
        const read = checkpoint.getTensor('t', { signal: aborting.signal });
        setTimeout(() => aborting.abort(i), i % 10);
        return await read.catch((reason: unknown) => reason);
      }),
    );
    expect(reasons).toEqual(Array.from({ length: 1000 }, (_, i) => i));
    expect(files.underWay).toBe(0);
    files.delayMs = 0;
    expect((await checkpoint.getTensor('t')).byteLength).toBe(MIB);
  });

  it('refuses what fits into no buffer before anything is fetched, but not its slices', async () => {
    const { files, checkpoint } = await opened([rows('t', 2)], { maxBufferByteLength: MIB });
    await expect(checkpoint.getTensor('t')).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_TOO_LARGE',
      tensor: 't',
      path: 'https://models.example/model.safetensors',
    });
    await expect(checkpoint.readTensors(['t'])).rejects.toThrow('use slices');
    expect(files.requests).toEqual([]);
    expect((await checkpoint.getSlice('t', 1)).byteLength).toBe(MIB);
  });

  it('rejects with what a slice cannot be, before anything is fetched', async () => {
    const { files, checkpoint } = await opened([{ name: 't', dtype: 'F4', shape: [4, 2] }]);
    const codes = {
      SLICE_OUT_OF_RANGE: [4],
      TOO_MANY_INDICES: [0, 0, 0],
      MISALIGNED_SLICE: [0, 0],
    };
    for (const [code, index] of Object.entries(codes)) {
      await expect(checkpoint.getSlice('t', ...index)).rejects.toMatchObject({
        code: `SAFETENSORS_${code}`,
        tensor: 't',
      });
    }
    expect(files.requests).toEqual([]);
  });
});

it('a file of 100 000 bytes takes one request to open', () => {
  expect(FIRST_BYTE_LENGTH).toBe(100_000);
});
