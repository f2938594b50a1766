import { truncateSync } from 'node:fs';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { inOrder, type StreamSource, streamTensors } from '../../../src/file/source/stream.js';
import { parse, safeOpen, type Tensor } from '../../support/api.js';
import { writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes, writeTemporary } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { dropFromPageCache } from '../../support/page-cache.js';

const MIB = 2 ** 20;

const entries: readonly Entry[] = [
  { name: 'b', dtype: 'U8', shape: [3 * MIB] },
  { name: 'empty', dtype: 'F32', shape: [0] },
  { name: 'c', dtype: 'F32', shape: [5] },
  { name: 'a', dtype: 'U8', shape: [6 * MIB] },
];

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const namesOf = (pairs: readonly [string, Tensor][]): string[] => pairs.map(([name]) => name);

describe('the tensors', () => {
  test.each(['mmap', 'memory'] as const)('are those of getTensor (%s)', async (storage) => {
    using file = storage === 'mmap' ? safeOpen(writeTemporary(entries)) : parse(fileBytes(entries));
    expect(file.storage).toBe(storage);
    const streamed = await collect(file.stream());
    expect(namesOf(streamed)).toEqual(file.offsetKeys());
    for (const [name, tensor] of streamed) expect(tensor).toBe(file.getTensor(name));
  });

  test('have memory that the file does not keep, with storage read', async () => {
    const file = safeOpen(writeTemporary(entries), { storage: 'read' });
    const streamed = await collect(file.stream());
    expect(namesOf(streamed)).toEqual(file.offsetKeys());
    for (const [name, tensor] of streamed) {
      expect(tensor).not.toBe(file.getTensor(name));
      expect(Buffer.compare(tensor.bytes, file.getTensor(name).bytes)).toBe(0);
    }
    file.close({ detach: true });
    for (const [name, tensor] of streamed) {
      expect(tensor.bytes.length, name).toBe(tensor.byteLength);
    }
  });

  test('come in the order of the names, as often as they are named', async () => {
    using file = safeOpen(writeTemporary(entries));
    const names = ['c', 'a', 'c', 'empty'];
    expect(namesOf(await collect(file.stream({ names: names.values() })))).toEqual(names);
    expect(await collect(file.stream({ names: [] }))).toEqual([]);
  });

  test('come shard by shard, by the names that were asked for', async () => {
    const folder = writeCheckpoint({
      shards: {
        '1.safetensors': entries,
        '2.safetensors': [{ name: 'd', dtype: 'I8', shape: [2] }],
      },
    });
    using checkpoint = safeOpen(folder);
    const streamed = await collect(checkpoint.stream({ prefetchByteLength: 0 }));
    expect(namesOf(streamed)).toEqual(checkpoint.offsetKeys());
    for (const [name, tensor] of streamed) expect(tensor).toBe(checkpoint.getTensor(name));
    expect(namesOf(await collect(checkpoint.stream({ names: ['d', 'b'] })))).toEqual(['d', 'b']);
    using reading = safeOpen(folder, { storage: 'read' });
    for await (const [name, tensor] of reading.stream()) {
      expect(tensor).not.toBe(reading.getTensor(name));
      expect(Buffer.compare(tensor.bytes, checkpoint.getTensor(name).bytes)).toBe(0);
    }
  });

  test('are found by the alias under which a writer dropped them', async () => {
    using checkpoint = safeOpen(
      writeTemporary([{ name: 'kept', dtype: 'U8', shape: [2] }], { metadata: { tied: 'kept' } }),
    );
    const [[name, tensor] = []] = await collect(checkpoint.stream({ names: ['tied'] }));
    expect([name, tensor]).toEqual(['tied', checkpoint.getTensor('kept')]);
  });
});

test('a tensor that is not in memory is there when its turn comes', async ({ skip }) => {
  const path = writeTemporary(entries);
  using file = safeOpen(path);
  skip(!dropFromPageCache(path) || (file.residency() ?? 0) > 0, 'it cannot be dropped');
  for await (const [name, tensor] of file.stream()) {
    expect(file.residency(name), name).toBe(tensor.byteLength);
  }
});

describe('fetching ahead', () => {
  /** Tensors by name and length; fetches end when they are let go. */
  function manualSource(lengths: Readonly<Record<string, number>>) {
    const begun: string[][] = [];
    const running: { readonly resolve: () => void; readonly reject: (reason: unknown) => void }[] =
      [];
    const signals: (AbortSignal | undefined)[] = [];
    const sized = Object.entries(lengths).map(([name, byteLength]) => ({ name, byteLength }));
    const arrival = { tensorOf: (name: string) => name as unknown as Tensor, release() {} };
    const source: StreamSource = {
      groupByteLength: 4 * MIB,
      prefetchByteLength: 128 * MIB,
      tensors: () => inOrder(sized),
      totalByteLength: async () => sized.reduce((sum, { byteLength }) => sum + byteLength, 0),
      fetch: ({ tensors }, { signal }) => {
        begun.push(tensors.map(({ name }) => name));
        signals.push(signal);
        return new Promise((resolve, reject) => {
          running.push({ resolve: () => resolve(arrival), reject });
          signal.addEventListener('abort', () => reject(signal.reason));
        });
      },
      requireOpen() {},
      end() {},
    };
    return { source, begun, running, signals };
  }

  test('keeps to the limit, but always fetches the next tensor', async () => {
    const lengths = { a: 8 * MIB, b: 4 * MIB, c: 4 * MIB, d: 20 * MIB, e: 1 * MIB };
    const { source, begun, running } = manualSource(lengths);
    const stream = streamTensors(source, { prefetchByteLength: 12 * MIB });
    const first = stream.next();
    expect(begun).toEqual([['a'], ['b']]);
    for (const fetch of running) fetch.resolve();
    expect(await first).toEqual({ value: ['a', 'a'], done: false });
    expect(begun).toEqual([['a'], ['b'], ['c']]);
    await stream.next();
    expect(begun.length).toBe(3);
    running[2]?.resolve();
    await stream.next();
    // Nothing else is ahead.
    expect(begun).toEqual([['a'], ['b'], ['c'], ['d']]);
    running[3]?.resolve();
    await stream.next();
    running[4]?.resolve();
    await stream.next();
    expect(await stream.next()).toEqual({ value: undefined, done: true });
    expect(begun.at(-1)).toEqual(['e']);
  });

  test('fetches short tensors together', async () => {
    const lengths = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`${i}`, MIB]));
    const { source, begun, running } = manualSource(lengths);
    const stream = streamTensors(source, {});
    const first = stream.next();
    expect(begun.map((group) => group.length)).toEqual([4, 4, 1]);
    for (const fetch of running) fetch.resolve();
    await first;
    expect(await collect(stream)).toHaveLength(8);
  });

  test('ends when the loop is left, and waits for what is under way', async () => {
    const { source, begun, running, signals } = manualSource({ a: 8 * MIB, b: MIB });
    const stream = streamTensors(source, {});
    const first = stream.next();
    running[0]?.resolve();
    await first;
    expect(begun.length).toBe(2);
    expect(signals[1]?.aborted).toBe(false);
    await stream.return();
    expect(signals[1]?.aborted).toBe(true);
  });

  test('throws an error of a fetch when its turn comes', async () => {
    const { source, running } = manualSource({ a: 8 * MIB, b: MIB });
    const stream = streamTensors(source, {});
    const first = stream.next();
    running[1]?.reject(new Error('the disk is broken'));
    // So long that Node would take it for a rejection that nobody handles.
    await yieldNow();
    running[0]?.resolve();
    expect((await first).value).toEqual(['a', 'a']);
    await expect(stream.next()).rejects.toThrow('the disk is broken');
  });

  test.each(['while it waits', 'between two tensors', 'before'])('is aborted %s', async (when) => {
    const { source, running, signals } = manualSource({ a: 8 * MIB, b: MIB });
    const controller = new AbortController();
    const reason = new Error('no longer needed');
    if (when === 'before') controller.abort(reason);
    const stream = streamTensors(source, { signal: controller.signal });
    const first = stream.next();
    if (when === 'between two tensors') {
      running[0]?.resolve();
      running[1]?.resolve();
      await first;
    }
    controller.abort(reason);
    await expect(when === 'between two tensors' ? stream.next() : first).rejects.toBe(reason);
    expect(signals.every((signal) => signal?.aborted)).toBe(true);
    expect(await stream.next()).toEqual({ value: undefined, done: true });
  });
});

describe('progress', () => {
  test.each(['mmap', 'read'] as const)(
    'counts every tensor as often as it is named (%s)',
    async (storage) => {
      using file = safeOpen(writeTemporary(entries), { storage });
      const onProgress = vi.fn();
      await collect(file.stream({ onProgress }));
      expect(onProgress).toHaveBeenLastCalledWith({
        bytes: 9 * MIB + 20,
        totalBytes: 9 * MIB + 20,
      });
      onProgress.mockClear();
      await collect(file.stream({ names: ['c', 'empty', 'c'], onProgress }));
      // On a slow machine a report comes before the last one.
      expect(onProgress.mock.calls.at(-1)).toEqual([{ bytes: 40, totalBytes: 40 }]);
      for (const [{ totalBytes }] of onProgress.mock.calls) expect(totalBytes).toBe(40);
      onProgress.mockClear();
      await collect(file.stream({ names: [], onProgress }));
      expect(onProgress.mock.calls).toEqual([[{ bytes: 0, totalBytes: 0 }]]);
    },
  );

  test('covers all shards, and ends the loop with an error', async () => {
    const folder = writeCheckpoint({
      shards: {
        '1.safetensors': entries,
        '2.safetensors': [{ name: 'd', dtype: 'I8', shape: [2] }],
      },
    });
    using checkpoint = safeOpen(folder);
    const onProgress = vi.fn();
    await collect(checkpoint.stream({ onProgress }));
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: 9 * MIB + 22, totalBytes: 9 * MIB + 22 });
    const error = new Error('the bar is broken');
    onProgress.mockImplementation(() => {
      throw error;
    });
    await expect(collect(checkpoint.stream({ onProgress }))).rejects.toBe(error);
  });

  test('is reported when the last bytes have arrived, not when the loop ends', async () => {
    using file = safeOpen(writeTemporary(entries));
    const onProgress = vi.fn();
    for await (const [name] of file.stream({ onProgress })) {
      if (name === file.offsetKeys().at(-1)) expect(onProgress).toHaveBeenCalled();
    }
  });
});

describe('with reuse', () => {
  const prefetchByteLength = 16 * MIB;
  const large: readonly Entry[] = [
    { name: 'odd', dtype: 'U8', shape: [3] },
    { name: 'first', dtype: 'F32', shape: [3 * MIB] },
    { name: 'empty', dtype: 'F32', shape: [0] },
    ...Array.from(
      { length: 9 },
      (_, i): Entry => ({ name: `${i}`, dtype: 'I16', shape: [3 * MIB] }),
    ),
  ];

  test.each(['mmap', 'read'] as const)('the bytes are those of the file (%s)', async (storage) => {
    const path = writeTemporary(large);
    using file = safeOpen(path, { storage });
    using other = safeOpen(path);
    dropFromPageCache(path);
    const names: string[] = [];
    const buffers = new Set<ArrayBufferLike>();
    for await (const [name, tensor] of file.stream({ reuse: true, prefetchByteLength })) {
      names.push(name);
      const { bytes, dtype, shape } = other.getTensor(name);
      expect(tensor).toMatchObject({ name, dtype, shape });
      expect(Buffer.compare(tensor.bytes, bytes), name).toBe(0);
      buffers.add(tensor.bytes.buffer);
    }
    expect(names).toEqual(file.offsetKeys());
    if (storage === 'read') expect(buffers.size).toBeLessThanOrEqual(8);
  });

  test('what is not in memory is not brought there', async ({ skip }) => {
    const path = writeTemporary(large);
    using file = safeOpen(path);
    skip(!dropFromPageCache(path) || file.residency() !== 0, 'it cannot be dropped');
    const buffers = new Set<ArrayBufferLike>();
    for await (const [, tensor] of file.stream({ reuse: true, prefetchByteLength }))
      buffers.add(tensor.bytes.buffer);
    expect(file.residency()).toBeLessThan(MIB);
    expect(buffers.size).toBeLessThan(8);
  });

  test('a tensor that is in memory, or in use, is that of getTensor', async () => {
    const path = writeTemporary(large);
    using file = safeOpen(path);
    dropFromPageCache(path);
    const used = file.getTensor('4');
    used.view(Int16Array)[0] = 7;
    for await (const [name, tensor] of file.stream({ reuse: true, prefetchByteLength })) {
      if (name === '4') expect(tensor).toBe(used);
    }
    file.getTensor('first').bytes.slice();
    await file.prefetch();
    for await (const [name, tensor] of file.stream({ reuse: true, prefetchByteLength })) {
      expect(tensor).toBe(file.getTensor(name));
    }
  });

  test('goes on across shards, in the order of the names', async () => {
    const folder = writeCheckpoint({
      shards: { '1.safetensors': large, '2.safetensors': [{ name: 'd', dtype: 'I8', shape: [2] }] },
    });
    using checkpoint = safeOpen(folder);
    using other = safeOpen(folder);
    for (const { file } of await checkpoint.headers()) dropFromPageCache(`${folder}/${file}`);
    const names = ['d', '7', 'odd', '7', 'd', 'first'];
    const found: string[] = [];
    for await (const [name, tensor] of checkpoint.stream({ names, reuse: true })) {
      found.push(name);
      expect(Buffer.compare(tensor.bytes, other.getTensor(name).bytes), name).toBe(0);
    }
    expect(found).toEqual(names);
    expect(await collect(parse(fileBytes(entries)).stream({ reuse: true }))).toHaveLength(4);
  });

  test('leaving the loop gives back every descriptor', async () => {
    const path = writeTemporary(large);
    using file = safeOpen(path);
    const before = openDescriptors();
    for (const last of ['first', '8']) {
      dropFromPageCache(path);
      for await (const [name] of file.stream({ reuse: true })) if (name === last) break;
      await yieldNow();
      expect(openDescriptors()).toEqual(before);
    }
  });
});

describe('what is wrong', () => {
  test('is said at once where it can be', () => {
    using file = safeOpen(writeTemporary(entries));
    const missing = expect.objectContaining({ code: 'SAFETENSORS_TENSOR_NOT_FOUND' });
    expect(() => file.stream({ names: ['a', 'x'] })).toThrow(missing);
    expect(() => file.stream({ names: 'a' })).toThrow(TypeError);
    expect(() => file.stream({ prefetchByteLength: -1 })).toThrow(RangeError);
    expect(() => file.stream({ reuse: 1 as unknown as boolean })).toThrow(TypeError);
    expect(() => file.stream({ signal: {} as AbortSignal })).toThrow(TypeError);
    expect(() => file.stream({ ahead: 1 } as object)).toThrow(/prefetchByteLength/);
    using checkpoint = safeOpen(writeTemporary(entries));
    expect(() => checkpoint.stream({ names: ['x'] })).toThrow(missing);
    file.close();
    checkpoint.close();
    const closed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' });
    expect(() => file.stream()).toThrow(closed);
    expect(() => checkpoint.stream()).toThrow(closed);
  });

  test.each([
    ['closed', 'SAFETENSORS_FILE_CLOSED', false],
    ['cut short', 'SAFETENSORS_FILE_CHANGED', false],
    ['closed', 'SAFETENSORS_FILE_CLOSED', true],
    ['cut short', 'SAFETENSORS_FILE_CHANGED', true],
  ])('a file that is %s meanwhile ends the loop: %s, reuse: %s', async (what, code, reuse) => {
    const path = writeTemporary(entries);
    using file = safeOpen(path);
    if (reuse) dropFromPageCache(path);
    const stream = file.stream({ prefetchByteLength: 0, reuse });
    await stream.next();
    if (what === 'closed') file.close();
    else truncateSync(path, 4096);
    await expect(collect(stream)).rejects.toMatchObject({ code, path });
  });
});
