import { afterEach, describe, expect, test, vi } from 'vitest';
import { Slots } from '../../src/work/slots.js';
import { Transfer, type TransferProgress } from '../../src/work/transfer.js';

function nothing(): void {}

/** A piece of work that ends when it is told to. */
class Piece {
  readonly done: Promise<number>;
  end: (bytes: number) => void = nothing;
  fail: (error: Error) => void = nothing;

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
  }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

afterEach(() => {
  vi.useRealTimers();
});

describe('Transfer.run', () => {
  test('moves every piece once, in order, no more at once than there are slots', async () => {
    const transfer = new Transfer(10, {}, nothing);
    const begun: number[] = [];
    let running = 0;
    let most = 0;
    await transfer.run([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], new Slots(3), async (piece) => {
      begun.push(piece);
      most = Math.max(most, ++running);
      await turn();
      running--;
      return 1;
    });
    expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(most).toBe(3);
  });

  test('shares its slots with other transfers, first come, first served', async () => {
    const slots = new Slots(2);
    let running = 0;
    let most = 0;
    const order: string[] = [];
    const run = (name: string): Promise<void> =>
      new Transfer(4, {}, nothing).run([1, 2, 3, 4], slots, async () => {
        order.push(name);
        most = Math.max(most, ++running);
        await turn();
        running--;
        return 1;
      });
    await Promise.all([run('a'), run('b'), run('c')]);
    expect(most).toBe(2);
    expect(order).toHaveLength(12);
    expect(order.slice(0, 6).sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c']);
  });

  test('begins nothing after an error, and rejects when nothing is under way', async () => {
    const pieces = [new Piece(), new Piece(), new Piece()];
    const begun: Piece[] = [];
    let settled: unknown;
    const transfer = new Transfer(3, {}, nothing);
    const run = transfer.run(pieces, new Slots(2), (piece) => {
      begun.push(piece);
      return piece.done;
    });
    run.catch((error: unknown) => {
      settled = error;
    });
    await turn();
    pieces[0]?.fail(new Error('first'));
    await turn();
    expect(settled).toBeUndefined();
    pieces[1]?.end(1);
    await expect(run).rejects.toThrow('first');
    expect(begun).toHaveLength(2);
  });

  test('begins nothing after an abort, and rejects with the reason', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    let begun = 0;
    const transfer = new Transfer(9, { signal: controller.signal }, nothing);
    const run = transfer.run([1, 2, 3, 4], new Slots(1), async () => {
      if (++begun === 2) controller.abort(reason);
      return 1;
    });
    await expect(run).rejects.toBe(reason);
    expect(begun).toBe(2);
    await expect(transfer.run([], new Slots(1), async () => 0)).rejects.toBe(reason);
  });

  test('checks before every piece and at the end', async () => {
    let checks = 0;
    const check = (): void => {
      if (++checks === 3) throw new Error('no point');
    };
    let begun = 0;
    const run = new Transfer(9, {}, check).run([1, 2, 3, 4], new Slots(1), async () => ++begun);
    await expect(run).rejects.toThrow('no point');
    expect(begun).toBe(2);
    checks = 2;
    expect(() => new Transfer(9, {}, check).finish()).toThrow('no point');
  });

  test('an error while the pieces are made ends it', async () => {
    const pieces = (function* () {
      yield 1;
      throw new Error('no memory');
    })();
    const run = new Transfer(2, {}, nothing).run(pieces, new Slots(2), async () => 1);
    await expect(run).rejects.toThrow('no memory');
  });
});

test('a slot that is released early goes to the next in the queue, once', async () => {
  const slots = new Slots(1);
  const pieces = [new Piece(), new Piece(), new Piece()];
  const begun: number[] = [];
  const runs = pieces.map((piece, number) =>
    slots.run(async (release) => {
      begun.push(number);
      if (number === 0) release();
      await piece.done;
    }),
  );
  await turn();
  expect(begun).toEqual([0, 1]);
  // The first has no slot to hand over any more.
  pieces[0]?.end(0);
  await runs[0];
  await turn();
  expect(begun).toEqual([0, 1]);
  for (const piece of pieces) piece.end(0);
  await Promise.all(runs);
  expect(begun).toEqual([0, 1, 2]);
});

describe('progress', () => {
  test('comes at most every 100 ms, and once at the end', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const seen: TransferProgress[] = [];
    const transfer = new Transfer(100, { onProgress: (progress) => seen.push(progress) }, nothing);
    const pieces = Array.from({ length: 10 }, () => 10);
    await transfer.run(pieces, new Slots(1), async (bytes) => {
      vi.advanceTimersByTime(40);
      return bytes;
    });
    expect(seen.map(({ bytes }) => bytes)).toEqual([30, 60, 90, 100]);
    expect(new Set(seen.map(({ totalBytes }) => totalBytes))).toEqual(new Set([100]));
  });

  test('ends the transfer when it throws', async () => {
    const onProgress = (): void => {
      throw new Error('in the callback');
    };
    const run = new Transfer(1, { onProgress }, nothing).run([1], new Slots(1), async () => 1);
    await expect(run).rejects.toThrow('in the callback');
  });
});

test('options of the wrong kind are TypeErrors', () => {
  const make = (options: object) => () => new Transfer(1, options, nothing);
  expect(make({ signal: 'stop' })).toThrow(/signal must be an AbortSignal, but is "stop"/);
  expect(make({ onProgress: 1 })).toThrow(/onProgress must be a function, but is 1/);
});
