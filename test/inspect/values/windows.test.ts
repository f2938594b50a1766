/** Windows of values: how tensors are cut so that their values take little memory; aborts, progress, remote tensors. */
import { Buffer } from 'node:buffer';
import { describe, expect, it, vi } from 'vitest';
import {
  alikeWindows,
  type SliceableTensor,
  tensorValues,
} from '../../../src/inspect/values/tensor-values.js';
import { type Dtype, parse, serialize, type Tensor } from '../../support/api.js';

const MOST = 2 ** 22;

function tensorOf(dtype: Dtype, shape: readonly number[], byteLength: number): Tensor {
  const data = new Uint8Array(byteLength);
  for (let i = 0; i < byteLength; i++) data[i] = i % 251;
  return parse(serialize({ t: { dtype, shape, data } })).getTensor('t');
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function partsOf(...tensors: readonly Tensor[]): Promise<(readonly Tensor[])[]> {
  const windows = await all(alikeWindows(tensors, {}));
  return windows.map(({ parts = [] }) => parts);
}

describe('windows of tensors', () => {
  it.each([[[0, 4]], [[]], [[MOST + 5]], [[1, MOST + 5]], [[2, 1, MOST + 1]], [[3, 5, 2 ** 20]]])(
    'of %j follow each other, and none is large',
    async (shape) => {
      const count = shape.reduce((product, length) => product * length, 1);
      const tensor = tensorOf('U8', shape, count);
      const windows = (await partsOf(tensor)).flat();
      for (const { elementCount } of windows) expect(elementCount).toBeLessThanOrEqual(MOST);
      const bytes = Buffer.concat(windows.map((window) => window.bytes));
      expect(Buffer.compare(bytes, tensor.bytes)).toBe(0);
    },
  );

  it('are cut alike, or not at all where elements begin inside of bytes', async () => {
    const shape = [1, MOST + 8];
    const bytes = tensorOf('U8', shape, MOST + 8);
    const shorts = tensorOf('BF16', shape, 2 * (MOST + 8));
    for (const [a, b] of await partsOf(bytes, shorts)) expect(a?.shape).toEqual(b?.shape);
    const packed = tensorOf('F4', shape, (MOST + 8) / 2);
    const windows = await partsOf(bytes, packed);
    expect(windows.map((parts) => parts.map(({ shape }) => shape))).toEqual([[shape, shape]]);
  });
});

describe('the values of a tensor', () => {
  const shape = [3, MOST];
  const tensor = tensorOf('U8', shape, 3 * MOST);

  /** Its parts come by promises; counts those that were asked for. */
  function remote(fail = Number.POSITIVE_INFINITY): SliceableTensor & { asked: number } {
    return {
      ...{ dtype: 'U8', shape, asked: 0 },
      async slice(...index) {
        if (this.asked++ >= fail) throw new Error(`part ${this.asked} is lost`);
        return await Promise.resolve(tensor.slice(...index));
      },
    };
  }

  it('come in order, from memory and by promises', async () => {
    for (const one of [tensor, remote()]) {
      const windows = await all(tensorValues(one));
      expect(windows.map(({ length }) => length)).toEqual([MOST, MOST, MOST]);
      const bytes = windows.map((window) => Uint8Array.from(window));
      expect(Buffer.compare(Buffer.concat(bytes), tensor.bytes)).toBe(0);
    }
  });

  it('are read one window ahead, and no further than they are asked for', async () => {
    const one = remote();
    const values = tensorValues(one);
    await values.next();
    expect(one.asked).toBe(2);
    await values.return();
    expect(one.asked).toBe(2);
  });

  it('end with the error of a part', async () => {
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { length } of tensorValues(remote(1))) seen.push(length);
    })();
    await expect(reading).rejects.toThrow('part 2 is lost');
    expect(seen).toEqual([MOST]);
  });

  it('end when the signal aborts, and tell how many bytes were read', async () => {
    const controller = new AbortController();
    const onProgress = vi.fn();
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { length } of tensorValues(tensor, {
        signal: controller.signal,
        onProgress,
      })) {
        seen.push(length);
        controller.abort(new Error('enough'));
      }
    })();
    await expect(reading).rejects.toThrow('enough');
    expect(seen).toEqual([MOST]);
    await all(tensorValues(tensor, { onProgress }));
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: 3 * MOST, totalBytes: 3 * MOST });
  });

  it('let other events run', async () => {
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    const slow = tensorOf('BF16', [16, 2 ** 20], 2 ** 25);
    for await (const values of tensorValues(slow)) {
      const until = performance.now() + 10;
      while (performance.now() < until) expect(values.length).toBeGreaterThan(0);
    }
    clearInterval(timer);
    expect(turns).toBeGreaterThan(1);
  });
});
