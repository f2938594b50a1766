/** A tensor after its file was closed is the same whether or not it was touched before. */
import { describe, expect, test } from 'vitest';
import type { Tensor } from '../support/api.js';
import { openers } from './openers.js';

const entries = [
  { name: 't', dtype: 'BF16', shape: [400, 300] },
  { name: 'other', dtype: 'U8', shape: [2] },
] as const;

const closed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' });

/** Every way to get at the values. */
const USES: Record<string, (tensor: Tensor) => unknown> = {
  data: (tensor) => tensor.data,
  bytes: (tensor) => tensor.bytes,
  view: (tensor) => tensor.view(Int16Array),
  toFloat32: (tensor) => tensor.toFloat32(),
  toFloat32Async: (tensor) => tensor.toFloat32Async(),
  take: (tensor) => tensor.take([399, 0]).bytes,
  takeAsync: async (tensor) => (await tensor.takeAsync([399, 0])).bytes,
  takeFloat32: (tensor) => tensor.takeFloat32([399, 0]),
  takeFloat32Async: (tensor) => tensor.takeFloat32Async([399, 0]),
  chunks: (tensor) => [...tensor.chunks({ maxByteLength: 6000 })],
  copy: (tensor) => tensor.copy().bytes,
  'a slice': (tensor) => tensor.slice([1, 3]).bytes,
  'a gathered slice': (tensor) => tensor.slice(null, 7).bytes,
  'a slice of a slice': (tensor) => tensor.slice([10, 20]).slice(2, [5, 9]).toFloat32(),
};

describe.each(openers)('%s', (kind, open) => {
  describe.each(['nobody has looked at', 'somebody has looked at'])('a tensor that %s', (state) => {
    const opened = () => {
      const file = open(entries);
      const tensor = file.getTensor('t');
      if (state.startsWith('somebody')) tensor.data;
      return { file, tensor };
    };

    test.each(Object.entries(USES))('gives the same after close: %s', async (_, use) => {
      const expected = await use(open(entries).getTensor('t'));
      const { file, tensor } = opened();
      file.close();
      expect(await use(tensor)).toEqual(expected);
      expect(await use(tensor)).toEqual(expected);
    });

    test.each(Object.entries(USES))('ends with a detaching close: %s', async (_, use) => {
      const { file, tensor } = opened();
      file.close({ detach: true });
      const used = (async () => use(tensor))();
      // After `parse` the memory is the caller's.
      if (kind === 'memory') await used;
      else await expect(used).rejects.toEqual(closed);
    });

    test('gives slices and chunks that go on', () => {
      const { file, tensor } = opened();
      const slice = tensor.slice([100, 200]);
      const chunks = tensor.chunks({ maxByteLength: 120_000 });
      const first = chunks.next().value as Uint8Array;
      file.close();
      const second = chunks.next().value as Uint8Array;
      expect(Buffer.compare(Buffer.concat([first, second]), tensor.bytes)).toBe(0);
      expect(Buffer.compare(slice.bytes, tensor.bytes.subarray(60_000, 120_000))).toBe(0);
    });

    test('has the same buffer on every call, and keeps what is written to it', () => {
      const { file, tensor } = opened();
      file.close();
      tensor.bytes[3] = 200;
      expect(tensor.buffer).toBe(tensor.buffer);
      expect(tensor.copy().bytes[3]).toBe(200);
    });
  });

  test('the file is asked nothing any more', async () => {
    const file = open(entries);
    file.getTensor('t');
    file.close();
    expect(() => file.getTensor('t')).toThrow(closed);
    expect(() => [...file]).toThrow(closed);
    expect(() => file.residency()).toThrow(closed);
    await expect(file.prefetch(['t'])).rejects.toEqual(closed);
    await expect(file.readTensors(['t'])).rejects.toEqual(closed);
  });

  test('closing again, even with detach, changes nothing', () => {
    const file = open(entries);
    const tensor = file.getTensor('other');
    file.close();
    file.close({ detach: true });
    expect([...tensor.bytes]).toEqual([...open(entries).getTensor('other').bytes]);
  });
});
