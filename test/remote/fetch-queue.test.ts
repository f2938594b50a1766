/** Calls of the same turn of the event loop share requests; other calls do not. */
import { afterEach, describe, expect, test } from 'vitest';
import { RemoteError } from '../../src/errors/errors.js';
import type { RemoteCheckpoint } from '../../src/remote/checkpoint.js';
import { openRemote, parse, type Tensor } from '../support/api.js';
import { type CountedFiles, countedCheckpoint, countedFile } from '../support/counted-source.js';
import { TWO_SHARDS } from '../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../support/make-file.js';
import { FileServer } from './download/file-server.js';

const MIB = 2 ** 20;

/** Three neighbours of 1 000 bytes, what is too long to be fetched for nothing, and one after it. */
const ENTRIES: readonly Entry[] = [
  { name: 'a', dtype: 'U8', shape: [1000] },
  { name: 'b', dtype: 'U8', shape: [1000] },
  { name: 'c', dtype: 'U8', shape: [10, 100] },
  { name: 'long', dtype: 'U8', shape: [2, MIB] },
  { name: 'd', dtype: 'U8', shape: [1000] },
];
const BYTES = fileBytes(ENTRIES);
const LOCAL = parse(BYTES);
const dataStart = 8 + Number(Buffer.from(BYTES).readBigUInt64LE());

async function opened(
  options = {},
): Promise<{ readonly files: CountedFiles; readonly checkpoint: RemoteCheckpoint }> {
  const files = countedFile(BYTES);
  const checkpoint = await files.open('model.safetensors', options);
  files.take();
  return { files, checkpoint };
}

/** Begin and end of the requests so far, in the data, in its order. */
function rangesOf(files: CountedFiles): number[][] {
  const ranges = files.take().map(({ begin, end }) => [begin - dataStart, end - dataStart]);
  return ranges.toSorted(([a = 0], [b = 0]) => a - b);
}

function expectSame(tensor: Tensor, expected: Tensor): void {
  expect(tensor.toJSON()).toEqual(expected.toJSON());
  expect(Buffer.compare(tensor.bytes, expected.bytes)).toBe(0);
  expect(tensor.buffer.byteLength).toBe(tensor.byteLength);
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 2));
}

/** Resolves when so many requests have arrived. */
async function requested(files: CountedFiles, count: number): Promise<void> {
  await expect.poll(() => files.requests.length).toBe(count);
}

describe('over HTTP', () => {
  let server: FileServer | undefined;
  afterEach(async () => await server?.close());

  test('neighbours that are asked for in the same turn are one request', async () => {
    server = await FileServer.start();
    server.files.set('model.safetensors', { bytes: BYTES, tag: '"1"' });
    const checkpoint = await openRemote(server.url('model.safetensors'));
    const before = server.requestCount;
    const [a, b, c] = await Promise.all([
      checkpoint.getTensor('a'),
      checkpoint.getTensor('b'),
      checkpoint.getSlice('c', [2, 5], [null, null, 3]),
    ]);
    expect(server.requestCount - before).toBe(1);
    expectSame(a, LOCAL.getTensor('a'));
    expectSame(b, LOCAL.getTensor('b'));
    expectSame(c, LOCAL.getSlice('c', [2, 5], [null, null, 3]));
    await checkpoint.getTensor('a');
    await checkpoint.getTensor('b');
    expect(server.requestCount - before).toBe(3);
    checkpoint.close();
  });
});

describe('requests', () => {
  test('are for what is at most the gap apart, whatever call asks for it', async () => {
    const { files, checkpoint } = await opened();
    await Promise.all(['d', 'c', 'a'].map((name) => checkpoint.getTensor(name)));
    expect(rangesOf(files)).toEqual([
      [0, 3000],
      [3000 + 2 * MIB, 4000 + 2 * MIB],
    ]);
    // Calls with different gaps share no requests.
    const gap = { maxGapByteLength: 0 };
    await Promise.all([
      checkpoint.readTensors(['a'], gap),
      checkpoint.readTensors(['b'], gap),
      checkpoint.getTensor('c'),
    ]);
    expect(rangesOf(files)).toEqual([
      [0, 2000],
      [2000, 3000],
    ]);
  });

  test('bring what several calls want once, into memory of each', async () => {
    const { files, checkpoint } = await opened();
    const [one, other] = await Promise.all([checkpoint.getTensor('a'), checkpoint.getTensor('a')]);
    expect(rangesOf(files)).toEqual([[0, 1000]]);
    one.bytes.fill(0);
    expectSame(other, LOCAL.getTensor('a'));
  });

  test('wait for a header together', async () => {
    const files = countedCheckpoint(TWO_SHARDS);
    const checkpoint = await files.open('model.safetensors.index.json');
    files.take();
    const names = checkpoint.keys().filter((name) => checkpoint.has(name));
    const found = await Promise.all(names.map((name) => checkpoint.getTensor(name)));
    expect(found.map(({ name }) => checkpoint.has(name))).toEqual(names.map(() => true));
    // Of each shard the header, and one range.
    expect(files.take().length).toBe(4);
  });

  test('of many calls are no longer than a piece, and no more than may be at once', async () => {
    const names = Array.from({ length: 40 }, (_, i) => `t${i}`);
    const entries = names.map((name) => ({ name, dtype: 'U8' as const, shape: [MIB] }));
    const files = countedFile(fileBytes(entries));
    const checkpoint = await files.open('model.safetensors', { concurrency: 3 });
    files.take();
    files.delayMs = 5;
    await Promise.all(names.map((name) => checkpoint.getTensor(name)));
    expect(files.mostUnderWay).toBe(3);
    const requests = files.take();
    expect(requests.map(({ begin, end }) => end - begin)).toEqual(Array(5).fill(8 * MIB));
  });
});

describe('calls that share a request', () => {
  test('end one by one: the request goes on for the others, until the last has ended', async () => {
    const { files, checkpoint } = await opened();
    const release = files.hold();
    const aborting = [new AbortController(), new AbortController()] as const;
    const [first, second] = aborting.map(({ signal }, i) =>
      checkpoint.getTensor(i === 0 ? 'a' : 'b', { signal }),
    );
    const third = checkpoint.getTensor('c');
    await requested(files, 1);
    aborting[0].abort('enough');
    await expect(first).rejects.toBe('enough');
    release();
    expectSame(await third, LOCAL.getTensor('c'));
    expectSame((await second) as Tensor, LOCAL.getTensor('b'));
    expect([files.requests.length, files.aborted]).toEqual([1, 0]);

    files.hold();
    const ended = [new AbortController(), new AbortController()] as const;
    const calls = ended.map(({ signal }) => checkpoint.getTensor('a', { signal }));
    await requested(files, 2);
    for (const each of ended) each.abort('all');
    expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual([
      'rejected',
      'rejected',
    ]);
    expect([files.requests.length, files.aborted, files.underWay]).toEqual([2, 1, 0]);
  });

  test('that ended before the request began take no part in it', async () => {
    const { files, checkpoint } = await opened({ concurrency: 1 });
    const release = files.hold();
    const busy = checkpoint.getTensor('d');
    await requested(files, 1);
    const aborting = new AbortController();
    const ended = checkpoint.getTensor('a', { signal: aborting.signal });
    const other = checkpoint.getTensor('b');
    await turn();
    aborting.abort('enough');
    await expect(ended).rejects.toBe('enough');
    release();
    expectSame(await other, LOCAL.getTensor('b'));
    await busy;
    expect(rangesOf(files)).toEqual([
      [1000, 2000],
      [3000 + 2 * MIB, 4000 + 2 * MIB],
    ]);
  });

  test('hear of their own bytes', async () => {
    const { checkpoint } = await opened();
    const told: Record<string, number[]> = { a: [], c: [] };
    await Promise.all(
      Object.entries(told).map(([name, list]) =>
        checkpoint.getTensor(name, {
          onProgress: ({ bytes, totalBytes }) => list.push(bytes, totalBytes),
        }),
      ),
    );
    expect(told).toEqual({ a: [1000, 1000], c: [1000, 1000] });
  });

  test('are ended by what their own onProgress throws', async () => {
    const { files, checkpoint } = await opened();
    const reason = new Error('enough');
    const onProgress = (): never => {
      throw reason;
    };
    const failing = checkpoint.getTensor('a', { onProgress });
    const other = checkpoint.getTensor('b');
    await expect(failing).rejects.toBe(reason);
    expectSame(await other, LOCAL.getTensor('b'));
    expect(files.requests.length).toBe(1);
  });

  test('reject with the error of the request, each naming its tensor', async () => {
    const { files, checkpoint } = await opened();
    const path = 'https://models.example/model.safetensors';
    files.onRequest = ({ begin }) => {
      if (begin > dataStart) return;
      throw new RemoteError('SAFETENSORS_REMOTE_UNAVAILABLE', 'no answer', { path, status: 503 });
    };
    const calls = ['a', 'b', 'd'].map((name) => checkpoint.getTensor(name));
    const results = await Promise.allSettled(calls);
    expect(results.slice(0, 2)).toMatchObject([
      { reason: { tensor: 'a', status: 503 } },
      { reason: { tensor: 'b', status: 503 } },
    ]);
    expect(results[2]?.status).toBe('fulfilled');
  });

  test('end when the checkpoint is closed', async () => {
    const { files, checkpoint } = await opened();
    files.delayMs = 10_000;
    const calls = ['a', 'b'].map((name) => checkpoint.getTensor(name));
    while (files.underWay === 0) await turn();
    checkpoint.close();
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
    }
    expect([files.underWay, files.aborted]).toEqual([0, 1]);
  });
});
