import { truncateSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { addon } from '../../src/platform/addon/addon.js';
import { castInTypeScript } from '../../src/tensor/float32/cast.js';
import { provideKernels } from '../../src/tensor/float32/kernels.js';
import { yieldNow } from '../../src/work/yielding.js';
import { DTYPES, type Dtype } from '../support/api.js';
import { LARGE, MANY, scrambledBytes } from './many-values.js';
import { openers } from './openers.js';

function sameBits(values: Float32Array, expected: Float32Array): boolean {
  const bytesOf = (array: Float32Array) =>
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return Buffer.compare(bytesOf(values), bytesOf(expected)) === 0;
}

/** Until the end of the test, conversions do this. */
function replaceKernels(work: (output: Float32Array, bytes: Uint8Array) => Promise<void>): void {
  onTestFinished(() => provideKernels(addon));
  const kernels = {
    convert: (_dtype: Dtype, bytes: Uint8Array, output: Float32Array) => void work(output, bytes),
    convertAsync: (_dtype: Dtype, bytes: Uint8Array, output: Float32Array) => work(output, bytes),
    cast: castInTypeScript,
    castAsync: async () => 0,
    dequantizeRows: () => {},
    decodeBlocks: () => {},
    addProduct: () => 0,
    addProductAsync: async () => 0,
    survey: () => {},
    surveyAsync: async () => {},
    mergeElements: () => 0,
    mergeElementsAsync: async () => 0,
  };
  provideKernels(() => kernels);
}

function sharedArray(length: number): Float32Array<SharedArrayBuffer> {
  return new Float32Array(new SharedArrayBuffer(4 * length));
}

describe.each(openers)('%s', (kind, open) => {
  test.each(Object.keys(DTYPES) as Dtype[])('%s equals toFloat32', async (dtype) => {
    // At an odd address, in two windows where windows are copied.
    const shape = [3, 2 ** 17];
    const bytes = scrambledBytes((3 * 2 ** 17 * DTYPES[dtype].bits) / 8);
    const tensor = open([{ name: 't', dtype, shape, bytes }], { padding: 3 }).getTensor('t');
    const result = await tensor.toFloat32Async();
    const into = new Float32Array(result.length);
    expect(await tensor.toFloat32Async({ into })).toBe(into);
    const expected = tensor.toFloat32();
    expect(sameBits(result, expected)).toBe(true);
    expect(sameBits(into, expected)).toBe(true);
    // Its bytes have been handed out by now.
    expect(sameBits(await tensor.toFloat32Async(), expected)).toBe(true);
  });

  test('many windows, into each kind of array', async () => {
    const tensor = open(LARGE).getTensor('t');
    const expected = tensor.toFloat32();
    const arrays = [undefined, new Float32Array(MANY), sharedArray(MANY)];
    for (const into of arrays) {
      const result = await tensor.toFloat32Async(into === undefined ? {} : { into });
      expect(result.length).toBe(MANY);
      expect(sameBits(result, expected)).toBe(true);
      if (into !== undefined) expect(result).toBe(into);
    }
    const part = new Float32Array(MANY + 2).fill(7).subarray(1, MANY + 1);
    expect(sameBits(await tensor.toFloat32Async({ into: part }), expected)).toBe(true);
    const around = new Float32Array(part.buffer);
    expect([around[0], around.at(-1)]).toEqual([7, 7]);
  });

  test('slices, scalars and nothing at all', async () => {
    const file = open([
      { name: 't', dtype: 'U8', shape: [4, 3] },
      { name: 'scalar', dtype: 'U8', shape: [] },
      { name: 'empty', dtype: 'F64', shape: [0, 3] },
    ]);
    expect([...(await file.getSlice('t', [1, 3]).toFloat32Async())]).toEqual([4, 5, 6, 7, 8, 9]);
    expect([...(await file.getSlice('t', null, 1).toFloat32Async())]).toEqual([2, 5, 8, 11]);
    expect([...(await file.getTensor('scalar').toFloat32Async())]).toEqual([1]);
    const into = new Float32Array(0);
    expect(await file.getTensor('empty').toFloat32Async({ into })).toBe(into);
  });

  test('several at once', async () => {
    const tensor = open(LARGE).getTensor('t');
    const results = await Promise.all([1, 2, 3, 4].map(() => tensor.toFloat32Async()));
    for (const result of results) expect(sameBits(result, tensor.toFloat32())).toBe(true);
  });

  test('an abort rejects with its reason and stops the work', async () => {
    const tensor = open(LARGE).getTensor('t');
    const reason = new Error('enough');
    const aborted = { signal: AbortSignal.abort(reason) };
    await expect(tensor.toFloat32Async(aborted)).rejects.toBe(reason);

    for (const into of [new Float32Array(MANY), sharedArray(MANY)]) {
      const controller = new AbortController();
      const conversion = tensor.toFloat32Async({ into, signal: controller.signal });
      controller.abort(reason);
      const ending = await conversion.then(
        () => 'complete',
        (error) => error,
      );
      expect(ending).toBe(reason);
      // Of many windows the last was never begun, and no thread writes any more.
      if (into.buffer instanceof ArrayBuffer) expect(into.at(-1)).toBe(0);
      into.fill(0);
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(into.every((value) => value === 0)).toBe(true);
    }
    await expect(
      tensor.toFloat32Async({ signal: new AbortController().signal }),
    ).resolves.toHaveLength(MANY);
  });

  describe('of nine windows where windows are copied', () => {
    const shape = [9, 2 ** 18];
    const openNine = () => open([{ name: 't', dtype: 'U8', shape }]).getTensor('t');

    test('two are converted at once, and longer ones where nothing is copied', async () => {
      const short = new Array(9).fill(2 ** 18);
      const long = kind === 'memory' ? short : new Array(3).fill(3 * 2 ** 18);
      for (const [into, expected] of [
        [undefined, long],
        [sharedArray(9 * 2 ** 18), long],
        [new Float32Array(9 * 2 ** 18), short],
      ] as const) {
        const lengths: number[] = [];
        let [running, atOnce] = [0, 0];
        const copies = new Set<ArrayBufferLike>();
        replaceKernels(async (output, { buffer }) => {
          lengths.push(output.length);
          copies.add(buffer);
          atOnce = Math.max(atOnce, ++running);
          await yieldNow();
          running--;
        });
        await openNine().toFloat32Async({ into });
        expect(lengths).toEqual(expected);
        expect(atOnce).toBe(2);
        // Copies of memory that may be detached: the next window uses them again.
        if (kind === 'memory') expect(copies.size).toBe(2);
      }
    });

    test('none begins after an abort', async () => {
      const controller = new AbortController();
      const reason = new Error('enough');
      let windows = 0;
      replaceKernels(async () => {
        windows++;
        await yieldNow();
        controller.abort(reason);
      });
      const into = new Float32Array(9 * 2 ** 18);
      const conversion = openNine().toFloat32Async({ into, signal: controller.signal });
      const ending = await conversion.then(
        () => 'complete',
        (error) => error,
      );
      expect(ending).toBe(reason);
      expect(windows).toBe(2);
    });
  });

  test.skipIf(kind === 'memory')('a file that changes meanwhile is an error', async () => {
    for (const how of ['toFloat32', 'toFloat32Async'] as const) {
      const file = open([{ name: 't', dtype: 'U8', shape: [4] }]);
      replaceKernels(async () => truncateSync(file.path as string, 10));
      await expect(async () => file.getTensor('t')[how]()).rejects.toMatchObject({
        code: 'SAFETENSORS_FILE_CHANGED',
      });
      file.close();
    }
  });

  test('arguments are checked', async () => {
    const tensor = open([{ name: 't', dtype: 'C64', shape: [2] }]).getTensor('t');
    await expect(tensor.toFloat32Async({ into: new Float32Array(2) })).rejects.toThrow(
      'the length of into must be 4, one per value, but is 2',
    );
    await expect(tensor.toFloat32Async({ into: [1, 2, 3, 4] as never })).rejects.toThrow(TypeError);
    await expect(tensor.toFloat32Async({ signal: {} as never })).rejects.toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
    });
    await expect(tensor.toFloat32Async({ into: new Float32Array(4) })).resolves.toHaveLength(4);
  });

  test('the event loop goes on', async () => {
    const tensor = open(LARGE).getTensor('t');
    let isDone = false;
    let turns = 0;
    const count = (): void => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await tensor.toFloat32Async({ into: new Float32Array(MANY) });
    isDone = true;
    expect(turns).toBeGreaterThan(3);
  });

  test('closing the file', async () => {
    const used = open(LARGE).getTensor('t');
    const expected = used.toFloat32();
    for (const isTouched of [true, false]) {
      const file = open(LARGE);
      const tensor = file.getTensor('t');
      if (isTouched) tensor.buffer;
      const converting = tensor.toFloat32Async();
      file.close();
      const later = tensor.toFloat32Async();
      expect(sameBits(await converting, expected)).toBe(true);
      expect(sameBits(await later, expected)).toBe(true);
      expect(sameBits(tensor.toFloat32(), expected)).toBe(true);
    }
  });
});
