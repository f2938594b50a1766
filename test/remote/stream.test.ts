/** `RemoteCheckpoint.stream`: the same tensors as a local stream, in bounded memory, whatever the source. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openRemote, type RemoteCheckpoint, safeOpen, type Tensor } from '../support/api.js';
import { type CountedFiles, countedCheckpoint, countedFile } from '../support/counted-source.js';
import { FileServer } from '../support/file-server.js';
import { useHub } from '../support/hub-environment.js';
import { HubServer } from '../support/hub-server.js';
import {
  type CheckpointDescription,
  filesOf,
  writeCheckpoint,
} from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';

const MIB = 2 ** 20;
const INDEX = 'model.safetensors.index.json';

const CHECKPOINT: CheckpointDescription = {
  shards: {
    'model-00001-of-00002.safetensors': [
      { name: 'kept', dtype: 'BF16', shape: [2, 5] },
      { name: 'odd', dtype: 'U8', shape: [3] },
      { name: 'empty', dtype: 'F32', shape: [0, 4] },
      { name: 'long', dtype: 'F32', shape: [3, MIB] },
    ],
    'model-00002-of-00002.safetensors': [
      { name: 'scalar', dtype: 'I64', shape: [] },
      { name: 'last', dtype: 'U8', shape: [9 * MIB] },
    ],
  },
  metadata: { tied: 'kept' },
};
const BYTE_LENGTH = 23 + 12 * MIB + 8 + 9 * MIB;

const files = filesOf(CHECKPOINT);
let server: FileServer;
let hub: HubServer;

beforeAll(async () => {
  server = await FileServer.start(
    Object.fromEntries(Array.from(files, ([name, bytes]) => [`/${name}`, bytes])),
  );
  hub = await HubServer.start({ 'org/model': { files: Object.fromEntries(files) } });
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await server.close();
  await hub.close();
});

/** The same checkpoint in every place. */
const PLACES: Readonly<Record<string, () => Promise<RemoteCheckpoint>>> = {
  'an HTTP server': () => openRemote(server.at(`/${INDEX}`)),
  'the Hub': () => {
    useHub(hub.url);
    return openRemote('hf://org/model');
  },
  Blobs: () =>
    openRemote(
      new Map(Array.from(files, ([name, bytes]) => [name, new Blob([new Uint8Array(bytes)])])),
    ),
};

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function namesOf(pairs: readonly (readonly [string, Tensor])[]): string[] {
  return pairs.map(([name]) => name);
}

describe.each(Object.entries(PLACES))('from %s', (_, openPlace) => {
  test.each([false, true])('come the tensors of a local stream (reuse: %s)', async (reuse) => {
    using local = safeOpen(writeCheckpoint(CHECKPOINT));
    using checkpoint = await openPlace();
    const streamed = await collect(checkpoint.stream({ reuse }));
    expect(namesOf(streamed)).toEqual(namesOf(await collect(local.stream())));
    for (const [name, tensor] of streamed) {
      const { dtype, shape, bytes } = local.getTensor(name);
      expect(tensor).toMatchObject({ name, dtype, shape });
      expect(Buffer.compare(tensor.bytes, bytes), name).toBe(0);
    }
  });

  test('come named tensors in the order of the names, as often as they are named', async () => {
    using local = safeOpen(writeCheckpoint(CHECKPOINT));
    using checkpoint = await openPlace();
    const names = ['odd', 'tied', 'empty', 'odd', 'scalar', 'kept'];
    const streamed = await collect(checkpoint.stream({ names: names.values() }));
    expect(namesOf(streamed)).toEqual(names);
    for (const [name, tensor] of streamed) {
      expect(tensor.name).toBe(name === 'tied' ? 'kept' : name);
      expect(Buffer.compare(tensor.bytes, local.getTensor(name).bytes), name).toBe(0);
    }
    expect(await collect(checkpoint.stream({ names: [] }))).toEqual([]);
  });
});

test('a reader is streamed, too', async () => {
  const bytes = new Uint8Array(fileBytes([{ name: 'a', dtype: 'U8', shape: [20 * MIB] }]));
  const read = vi.fn(async (begin: number, end: number) => bytes.subarray(begin, end));
  using checkpoint = await openRemote({ byteLength: bytes.length, read });
  const [[name, tensor] = []] = await collect(checkpoint.stream());
  expect(name).toBe('a');
  expect(Buffer.compare(tensor?.bytes as Uint8Array, bytes.subarray(-20 * MIB))).toBe(0);
});

/** Tensors of 9 MiB: each is fetched by two requests, and the first bytes of the file come with its header. */
function nineMib(count: number): CountedFiles {
  const entries = Array.from({ length: count }, (_, i) => {
    return { name: `layers.${i}`, dtype: 'U8', shape: [9 * MIB] } as const;
  });
  return countedFile(fileBytes(entries));
}

describe('fetching ahead', () => {
  test.each([
    ['nothing', { prefetchByteLength: 0 }, 8, 2],
    ['20 MiB', { prefetchByteLength: 20 * MIB }, 8, 3],
    ['8 MiB for each request', {}, 4, 4],
    ['8 MiB for each of eight requests', {}, 8, 8],
  ])('%s: no tensor beyond the limit is requested', async (_, options, concurrency, tensors) => {
    const counted = nineMib(20);
    using checkpoint = await counted.open('model.safetensors', { concurrency });
    counted.take();
    const stream = checkpoint.stream(options);
    await stream.next();
    const requested = (): number => Math.round(counted.byteLength / MIB) / 9;
    await expect.poll(() => [requested(), counted.underWay]).toEqual([tensors, 0]);
    await delay(20);
    expect(requested()).toBe(tensors);
    expect(counted.mostUnderWay).toBeLessThanOrEqual(concurrency);
    await stream.return();
    expect(requested()).toBe(tensors);
  });

  test('short tensors share requests', async () => {
    const entries = Array.from({ length: 20 }, (_, i) => {
      return { name: `${i + 10}`, dtype: 'U8', shape: [MIB] } as const;
    });
    const counted = countedFile(fileBytes(entries));
    using checkpoint = await counted.open('model.safetensors');
    counted.take();
    expect(await collect(checkpoint.stream())).toHaveLength(20);
    expect(counted.take()).toHaveLength(3);
  });

  test('leaving the loop ends the requests under way', async () => {
    const counted = nineMib(4);
    using checkpoint = await counted.open('model.safetensors');
    for await (const [name] of checkpoint.stream({ prefetchByteLength: 0 })) {
      expect(name).toBe('layers.0');
      counted.hold();
      await expect.poll(() => counted.underWay).toBeGreaterThan(0);
      break;
    }
    expect([counted.underWay, counted.aborted > 0]).toEqual([0, true]);
    expect(checkpoint.ok).toBe(true);
  });

  test('the tensors that were received are not retained by the stream', async () => {
    const counted = nineMib(3);
    using checkpoint = await counted.open('model.safetensors');
    const [first, second] = [
      await collect(checkpoint.stream()),
      await collect(checkpoint.stream()),
    ];
    expect(first[0]?.[1]).not.toBe(second[0]?.[1]);
    expect(first[0]?.[1].buffer).not.toBe(second[0]?.[1].buffer);
  });
});

describe('progress', () => {
  test('covers all bytes, and counts a tensor as often as it is named', async () => {
    using checkpoint = await countedCheckpoint(CHECKPOINT).open(INDEX);
    const onProgress = vi.fn();
    await collect(checkpoint.stream({ onProgress }));
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: BYTE_LENGTH, totalBytes: BYTE_LENGTH });
    onProgress.mockClear();
    await collect(checkpoint.stream({ names: ['odd', 'tied', 'kept', 'empty'], onProgress }));
    // More calls come before it where that takes long.
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: 43, totalBytes: 43 });
    expect(onProgress.mock.calls.every(([{ totalBytes }]) => totalBytes === 43)).toBe(true);
  });

  test('an error that it throws ends the loop', async () => {
    using checkpoint = await countedCheckpoint(CHECKPOINT).open(INDEX);
    const error = new Error('the bar is broken');
    const onProgress = (): void => {
      throw error;
    };
    await expect(collect(checkpoint.stream({ onProgress }))).rejects.toBe(error);
  });
});

describe('errors', () => {
  test('are thrown at once where no request is needed', async () => {
    using checkpoint = await countedCheckpoint(CHECKPOINT).open(INDEX);
    const missing = { code: 'SAFETENSORS_TENSOR_NOT_FOUND', tensor: 'x' };
    expect(() => checkpoint.stream({ names: ['odd', 'x'] })).toThrow(
      expect.objectContaining(missing),
    );
    expect(() => checkpoint.stream({ names: 'odd' })).toThrow(TypeError);
    expect(() => checkpoint.stream({ names: [7] as never })).toThrow(TypeError);
    expect(() => checkpoint.stream({ prefetchByteLength: -1 })).toThrow(RangeError);
    expect(() => checkpoint.stream({ reuse: 1 as never })).toThrow(TypeError);
    expect(() => checkpoint.stream({ signal: {} as never })).toThrow(TypeError);
    expect(() => checkpoint.stream({ onProgress: 1 as never })).toThrow(TypeError);
    expect(() => checkpoint.stream({ ahead: 1 } as never)).toThrow(/prefetchByteLength/);
    checkpoint.close();
    const closed = { code: 'SAFETENSORS_FILE_CLOSED' };
    expect(() => checkpoint.stream()).toThrow(expect.objectContaining(closed));
  });

  test('a tensor that no buffer can hold is rejected before any tensor is fetched', async () => {
    const counted = countedCheckpoint(CHECKPOINT);
    using checkpoint = await counted.open(INDEX, { maxBufferByteLength: 10 * MIB });
    await checkpoint.headers();
    counted.take();
    const error = { code: 'SAFETENSORS_TENSOR_TOO_LARGE', tensor: 'long' };
    await expect(collect(checkpoint.stream())).rejects.toMatchObject(error);
    await expect(checkpoint.readTensors()).rejects.toMatchObject(error);
    expect(counted.take()).toEqual([]);
    expect(namesOf(await collect(checkpoint.stream({ names: ['last'] })))).toEqual(['last']);
  });

  test('a tensor that its shard lacks is rejected as by readTensors', async () => {
    const weightMap = { odd: 'model-00002-of-00002.safetensors' };
    using checkpoint = await countedCheckpoint({ ...CHECKPOINT, weightMap }).open(INDEX);
    const code = 'SAFETENSORS_INDEX_MISMATCH';
    await expect(collect(checkpoint.stream({ names: ['odd'] }))).rejects.toMatchObject({ code });
    await expect(checkpoint.readTensors(['odd'])).rejects.toMatchObject({ code });
  });

  test('a failed request ends the loop when its turn comes', async () => {
    const counted = nineMib(3);
    using checkpoint = await counted.open('model.safetensors');
    const error = new Error('connection lost');
    counted.onRequest = ({ begin }) => {
      if (begin > 18 * MIB) throw error;
    };
    const found: string[] = [];
    const loop = async (): Promise<void> => {
      for await (const [name] of checkpoint.stream()) found.push(name);
    };
    await expect(loop()).rejects.toBe(error);
    expect(found).toEqual(['layers.0', 'layers.1']);
  });
});

describe.each(['abort', 'close'] as const)('%s', (how) => {
  test.each(['before', 'while headers are fetched', 'while it waits', 'between two tensors'])(
    'ends the loop and its requests (%s)',
    async (when) => {
      const counted = countedCheckpoint(CHECKPOINT);
      using checkpoint = await counted.open(INDEX);
      const controller = new AbortController();
      const reason = new Error('no longer needed');
      const stream = checkpoint.stream({ signal: controller.signal });
      const end = (): void => (how === 'close' ? checkpoint.close() : controller.abort(reason));
      if (when === 'between two tensors') await stream.next();
      if (when === 'while it waits') await checkpoint.headers();
      if (when.startsWith('while')) counted.hold();
      else end();
      const next = stream.next();
      if (when.startsWith('while')) {
        await expect.poll(() => counted.underWay).toBeGreaterThan(0);
        end();
      }
      const rejected = expect(next).rejects;
      if (how === 'abort') await rejected.toBe(reason);
      else await rejected.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
      await expect.poll(() => counted.underWay).toBe(0);
      expect(await stream.next()).toEqual({ value: undefined, done: true });
    },
  );
});
