/** Taking rows while other things happen: aborts, closing, files that change, cold pages. */
import { truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';
import { StorageRange } from '../../src/tensor/storage-range.js';
import { fillNow, fillYielding, takeBytes } from '../../src/tensor/take.js';
import { TensorOf } from '../../src/tensor/tensor.js';
import { safeOpen, type Tensor } from '../support/api.js';
import { fileBytes, writeTemporary } from '../support/make-file.js';
import { dropFromPageCache } from '../support/page-cache.js';
import { type Opener, openers } from './openers.js';

const entries = [{ name: 't', dtype: 'BF16', shape: [1000, 500] }] as const;

function openTable(open: Opener): Tensor {
  return open(entries).getTensor('t');
}

describe.each(openers)('%s', (kind, open) => {
  const many = Array.from({ length: 20_000 }, (_, i) => (i * 7) % 1000);

  test('the event loop goes on', async () => {
    const tensor = openTable(open);
    let isDone = false;
    let turns = 0;
    const count = (): void => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await tensor.takeFloat32Async(many);
    isDone = true;
    expect(turns).toBeGreaterThan(10);
  });

  test('an abort rejects with its reason, and nothing is written any more', async () => {
    const tensor = openTable(open);
    const reason = new Error('enough');
    await expect(tensor.takeAsync([1], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(tensor.takeAsync([1], { signal: {} as never })).rejects.toThrow(TypeError);
    const controller = new AbortController();
    const into = new Float32Array(many.length * 500);
    const taking = tensor.takeFloat32Async(many, { into, signal: controller.signal });
    setTimeout(() => controller.abort(reason));
    await expect(taking).rejects.toBe(reason);
    expect(into.at(-1)).toBe(0);
    into.fill(0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(into.every((value) => value === 0)).toBe(true);
  });

  test('an array that loses its memory meanwhile is an error', async () => {
    const tensor = openTable(open);
    const lost = expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' });
    const bytes = new Uint8Array(many.length * 1000);
    const floats = new Float32Array(many.length * 500);
    const takings = [
      tensor.takeAsync(many, { into: bytes }),
      tensor.takeFloat32Async(many, { into: floats }),
    ];
    structuredClone(0, { transfer: [bytes.buffer, floats.buffer] });
    const results = await Promise.allSettled(takings);
    for (const result of results) expect(result).toEqual({ status: 'rejected', reason: lost });
  });

  test('closing the file', async () => {
    for (const close of [{}, { detach: true }]) {
      const [file, unread] = [open(entries), open(entries)];
      const rows = many.slice(0, 5000);
      const expected = file.getTensor('t').take(rows).bytes;
      file.getTensor('t').buffer;
      const tensors = [file, unread].map((each) => each.getTensor('t'));
      const takings = tensors.map((tensor) => tensor.takeAsync(rows));
      file.close(close);
      unread.close(close);
      const closed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' });
      for (const [i, taking] of (await Promise.allSettled(takings)).entries()) {
        const later = () => tensors[i]?.take(rows).bytes;
        if ('detach' in close && kind !== 'memory') {
          expect(taking).toMatchObject({ reason: { code: 'SAFETENSORS_FILE_CLOSED' } });
          expect(later).toThrow(closed);
        } else {
          const taken = taking.status === 'fulfilled' ? taking.value.bytes : new Uint8Array();
          expect(Buffer.compare(taken, expected)).toBe(0);
          expect(Buffer.compare(later() as Uint8Array, expected)).toBe(0);
        }
      }
    }
  });

  const uses: readonly ((tensor: Tensor) => unknown)[] = [
    (tensor) => tensor.take([0, 4000]),
    (tensor) => tensor.takeAsync([0, 4000]),
    (tensor) => tensor.takeFloat32([0, 4000]),
    (tensor) => tensor.takeFloat32Async([0, 4000]),
  ];

  test.skipIf(kind === 'memory')('a file that was cut short is an error', async () => {
    for (const use of uses) {
      const path = writeTemporary([{ name: 't', dtype: 'F16', shape: [4096, 16] }]);
      const file = safeOpen(path, { storage: kind as 'mmap' | 'read' });
      const tensor = file.getTensor('t');
      truncateSync(path, 1000);
      await expect(async () => use(tensor)).rejects.toMatchObject({
        code: 'SAFETENSORS_FILE_CHANGED',
      });
      file.close();
    }
  });
});

test('a file that is cut short while rows are copied is an error', async () => {
  for (const fillRows of [fillNow, fillYielding]) {
    const path = writeTemporary([{ name: 't', dtype: 'F16', shape: [4096, 16] }]);
    using file = safeOpen(path);
    const { dtype, shape, byteLength } = file.getTensor('t');
    const source = TensorOf.sourceOf(file.getTensor('t'));
    source.resolve();
    const taking = takeBytes(
      { dtype, shape, byteLength, source, byteOffset: 0 },
      [4000],
      undefined,
    );
    const fill: typeof taking.fill = (...args) => {
      truncateSync(path, 1000);
      taking.fill(...args);
    };
    await expect(async () => fillRows({ ...taking, fill }, undefined)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
    });
  }
});

const takers: [string, (table: Tensor, indices: number[]) => unknown][] = [
  ['take', (table, indices) => table.take(indices)],
  ['takeFloat32', (table, indices) => table.takeFloat32(indices)],
  ['takeAsync', (table, indices) => table.takeAsync(indices)],
  ['takeFloat32Async', (table, indices) => table.takeFloat32Async(indices)],
];

test.each(takers)('only the rows come from the disk: %s', async (_, take) => {
  const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [1024, 16_384] }]);
  if (!dropFromPageCache(path)) return;
  using file = safeOpen(path);
  // Opening reads the header, and some pages after it.
  const before = file.residency('t') ?? Number.POSITIVE_INFINITY;
  if (file.storage !== 'mmap' || before > 2 ** 20) return;
  const indices = Array.from({ length: 64 }, (_, i) => i * 15 + 50);
  await take(file.getTensor('t'), indices);
  const come = (file.residency('t') ?? 0) - before;
  expect(come).toBeGreaterThanOrEqual(64 * 16_384);
  expect(come).toBeLessThan(3 * 64 * 16_384);
});

test('pages of all rows are asked for, of at most 1024 ranges at once', async () => {
  const rowByteLength = 6;
  const rowCount = 9000;
  const storage = new MemoryStorage(new Uint8Array(rowCount * rowByteLength), 2 ** 20);
  const asked: [number, number][] = [];
  const counts: number[] = [];
  Object.assign(storage, {
    populateRanges: async (ranges: Float64Array) => {
      counts.push(ranges.length / 2);
      for (let i = 0; i < ranges.length; i += 2) {
        asked.push([ranges[i] as number, ranges[i + 1] as number]);
      }
    },
  });
  const byteLength = rowCount * rowByteLength;
  const source = new StorageRange(storage, 't', 0, byteLength);
  const table = { dtype: 'U8', shape: [rowCount, rowByteLength], byteLength, source } as const;
  const rows = Array.from({ length: 4000 }, (_, i) => (i * 2 + 1) % rowCount);
  await fillYielding(takeBytes({ ...table, byteOffset: 0 }, rows, undefined), undefined);
  expect(Math.max(...counts)).toBeLessThanOrEqual(1024);
  const taken = new Set(
    asked.flatMap(([begin, length]) => Array.from({ length }, (_, i) => begin + i)),
  );
  expect(taken.size).toBe(rows.length * rowByteLength);
  expect(asked.reduce((sum, [, length]) => sum + length, 0)).toBe(taken.size);
  expect(rows.every((row) => taken.has(row * rowByteLength))).toBe(true);
});

test.each([
  ['mmap', 'was read before'],
  ['mmap', 'nobody has looked at'],
  ['read', 'was read before'],
  ['read', 'nobody has looked at'],
] as const)(
  'nothing is written once the file has changed: %s, a tensor that %s',
  async (storage, state) => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, { storage });
    const tensor = file.getTensor('t');
    if (state === 'was read before') void tensor.bytes;
    writeFileSync(path, fileBytes([{ ...entries[0], name: 'u' }]));
    utimesSync(path, 1, 1);
    for (const how of ['take', 'takeAsync'] as const) {
      const into = new Uint8Array(1000).fill(7);
      await expect(async () => tensor[how]([3], { into })).rejects.toMatchObject({
        code: 'SAFETENSORS_FILE_CHANGED',
      });
      expect(into.every((byte) => byte === 7)).toBe(true);
    }
  },
);

test.each(takers)('what was written to the tensor is in the rows: %s', async (_, take) => {
  for (const isWrittenFirst of [true, false]) {
    using file = safeOpen(writeTemporary([{ name: 't', dtype: 'F32', shape: [3000, 2] }]));
    const table = file.getTensor('t');
    if (!isWrittenFirst) await take(table, [2999]);
    const slice = table.slice(2999);
    (slice.data as Float32Array).set([1.5, -2]);
    const result = (await take(table, [2999])) as Tensor | Float32Array;
    expect([...(('data' in result ? result.data : result) as Float32Array)]).toEqual([1.5, -2]);
  }
});

test.each(takers)('taking rows hands out no memory of the mapping: %s', async (_, take) => {
  using file = safeOpen(writeTemporary([{ name: 't', dtype: 'F16', shape: [3000, 2] }]));
  const table = file.getTensor('t');
  await take(table, [0, 1, 2, 2999]);
  // Saving copies its bytes from file to file then.
  expect(TensorOf.sourceOf(table).untouchedFile !== undefined).toBe(file.storage === 'mmap');
});

test('calls at once have their own rows, of any number', async () => {
  using file = safeOpen(writeTemporary(entries));
  const table = file.getTensor('t');
  const calls = Array.from({ length: 64 }, (_, i) => {
    const rows = Array.from({ length: (i * 7) % 64 }, (_, row) => (row * 37 + i) % 1000);
    return { rows, expected: table.takeFloat32(rows) };
  });
  for (let pass = 0; pass < 3; pass++) {
    const results = await Promise.all(calls.map(({ rows }) => table.takeFloat32Async(rows)));
    for (const [i, { expected }] of calls.entries()) expect(results[i]).toEqual(expected);
  }
});
