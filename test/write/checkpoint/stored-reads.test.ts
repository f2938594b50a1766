/** Rows one after the other come from windows, each byte of which is read once. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { DigestOf, Stored } from '../../../src/write/checkpoint/stored-digests.js';
import { StoredReads } from '../../../src/write/checkpoint/stored-reads.js';

const bytesOf = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => (i * 7 + (i >> 8)) & 255);

function readsOf(
  rows: number,
  columns: number,
  windowByteLength: number,
  digestOf: DigestOf<Stored> = () => undefined,
): { reads: StoredReads<Stored>; bytes: Uint8Array; asked: [number, number][] } {
  const bytes = bytesOf(rows * columns);
  const asked: [number, number][] = [];
  const info = { dtype: 'U8', shape: [rows, columns], dataOffsets: [0, bytes.length] } as const;
  const reads = new StoredReads<Stored>({
    path: 'model.safetensors',
    tensors: [{ name: 't', info }],
    windowByteLength,
    read: async (parts) =>
      parts.map(({ begin, byteLength }) => {
        asked.push([begin, byteLength]);
        return bytes.slice(begin, begin + byteLength);
      }),
    digestOf,
    readSibling: async () => undefined,
  });
  return { reads, bytes, asked };
}

const slice = (reads: StoredReads<Stored>, first: number, last: number): Promise<Uint8Array> =>
  reads.getSlice('t', ...([[first, last], {}] as never as [null])).then((tensor) => tensor.bytes);

it('gives all bytes, and reads each once', async () => {
  const size = fc.integer({ min: 1, max: 40 });
  await fc.assert(
    fc.asyncProperty(
      size,
      size,
      size,
      fc.array(size, { minLength: 1 }),
      async (rows, columns, window, steps) => {
        const { reads, bytes, asked } = readsOf(rows, columns, window);
        for (let row = 0, step = 0; row < rows; step++) {
          const last = Math.min(rows, row + (steps[step % steps.length] as number));
          const found = await slice(reads, row, last);
          expect(found).toEqual(bytes.subarray(row * columns, last * columns));
          row = last;
        }
        let end = 0;
        for (const [begin, length] of asked) {
          expect(begin).toBe(end);
          end += length;
        }
        expect(end).toBe(bytes.length);
      },
    ),
  );
});

it('gives rows anywhere', async () => {
  const { reads, bytes } = readsOf(100, 10, 64);
  for (const [first, last] of [
    [50, 60],
    [0, 10],
    [10, 90],
    [99, 100],
    [5, 6],
  ] as const) {
    expect(await slice(reads, first, last)).toEqual(bytes.subarray(first * 10, last * 10));
  }
});

it('fails where bytes are needed, not where they are read ahead', async () => {
  let count = 0;
  const info = { dtype: 'U8', shape: [4, 8], dataOffsets: [0, 32] } as const;
  const reads = new StoredReads<Stored>({
    path: 'model.safetensors',
    tensors: [{ name: 't', info }],
    windowByteLength: 8,
    read: async (parts) => {
      if (++count === 2) throw new Error('the disk is gone');
      return parts.map(({ byteLength }) => bytesOf(byteLength));
    },
    digestOf: () => undefined,
    readSibling: async () => undefined,
  });
  expect((await slice(reads, 0, 1)).length).toBe(8);
  await new Promise((resolve) => setImmediate(resolve));
  await expect(slice(reads, 1, 2)).rejects.toThrow('the disk is gone');
});

it('compares every tensor with its digest, whatever was read before, and reads rows in order once', async () => {
  const context = { path: 'model.safetensors', tensor: 't' };
  const size = fc.integer({ min: 1, max: 30 });
  const slices = fc.array(fc.tuple(fc.nat(29), size), { maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(
      size,
      size,
      size,
      slices,
      fc.boolean(),
      async (rows, columns, window, some, isDamaged) => {
        const whole = bytesOf(rows * columns);
        if (isDamaged) whole[whole.length >> 1] = 255 - (whole[whole.length >> 1] as number);
        const hex = createHash('sha256').update(whole).digest('hex');
        const { reads, asked } = readsOf(rows, columns, window, () => ({ hex, context }));
        const compare = async (): Promise<void> => {
          for (const [first, length] of some) {
            if (first < rows) await slice(reads, first, Math.min(rows, first + length));
          }
          if (some.length === 0) for (let i = 0; i < rows; i++) await slice(reads, i, i + 1);
          await reads.compare(['t'], undefined);
        };
        if (isDamaged) {
          const expected = { code: 'SAFETENSORS_CHECKSUM_MISMATCH', ...context };
          await expect(compare()).rejects.toMatchObject(expected);
          return;
        }
        await compare();
        const read = asked.reduce((total, [, length]) => total + length, 0);
        if (some.length === 0) expect(read).toBe(whole.length);
        const before = asked.length;
        await reads.compare(['t'], undefined);
        expect(asked.length).toBe(before);
      },
    ),
  );
});

it('compares a tensor once for calls at the same time', async () => {
  const whole = bytesOf(40);
  const hex = createHash('sha256').update(whole).digest('hex');
  const context = { path: 'model.safetensors', tensor: 't' };
  const { reads, asked } = readsOf(4, 10, 8, () => ({ hex, context }));
  await Promise.all([1, 2, 3].map(() => reads.compare(['t'], undefined)));
  expect(asked).toEqual([
    [0, 8],
    [8, 8],
    [16, 8],
    [24, 8],
    [32, 8],
  ]);
});
