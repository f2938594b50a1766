import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type ShardWork, transferShards } from '../../../src/file/checkpoint/transfer-shards.js';
import type { TransferOptions, TransferProgress } from '../../support/api.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function worksOf(...byteLengths: readonly number[]): ShardWork[] {
  const file = {} as ShardWork['file'];
  return byteLengths.map((byteLength) => ({ file, names: undefined, byteLength }));
}

/** A shard that reports fourths of its own total, each after some milliseconds. */
function fourths(totalBytes: number, milliseconds: number) {
  return async (_work: ShardWork, { onProgress }: TransferOptions): Promise<void> => {
    for (const share of [0.25, 0.5, 0.75, 1]) {
      vi.advanceTimersByTime(milliseconds);
      onProgress?.({ bytes: totalBytes * share, totalBytes });
    }
  };
}

async function reportsOf(
  works: readonly ShardWork[],
  move: ReturnType<typeof fourths>,
): Promise<number[]> {
  const total = works.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const reports: number[] = [];
  const onProgress = ({ bytes, totalBytes }: TransferProgress): void => {
    expect(totalBytes).toBe(total);
    reports.push(bytes);
  };
  await transferShards(works, { onProgress }, () => {}, move);
  return reports;
}

test("progress adds up over shards, whatever a shard's own total is", async () => {
  const reports = await reportsOf(worksOf(400, 40, 4), fourths(1000, 100));
  expect(reports).toEqual([100, 200, 300, 400, 410, 420, 430, 440, 441, 442, 443, 444]);
});

test('reports come at most ten times a second, over all shards together', async () => {
  expect(await reportsOf(worksOf(400, 400), fourths(400, 50))).toEqual([200, 400, 600, 800]);
  expect(await reportsOf(worksOf(4, 4, 4, 4, 4), fourths(4, 10))).toEqual([10, 20]);
});

test('a shard with nothing left to fetch counts as a whole', async () => {
  expect(await reportsOf(worksOf(30, 10), fourths(0, 200))).toEqual([30, 30, 30, 30, 40]);
});

test('shards are moved one after the other; a closed checkpoint and an aborted signal reject', async () => {
  const moved: number[] = [];
  const move = async ({ byteLength }: ShardWork): Promise<void> => {
    await Promise.resolve();
    moved.push(byteLength);
  };
  const closed = new Error('closed');
  const check = (): void => {
    throw closed;
  };
  await expect(transferShards(worksOf(1, 2), {}, check, move)).rejects.toBe(closed);
  expect(moved).toEqual([1, 2]);
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(transferShards([], { signal }, () => {}, move)).rejects.toThrow('enough');
});
