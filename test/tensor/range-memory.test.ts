/** The memory of a range of a storage: its own or shared, and the calls of the storage that it takes. */
import { truncateSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { outOfMemory } from '../../src/errors/out-of-memory.js';
import { ComputedStorage } from '../../src/tensor/storage/computed.js';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';
import type { Storage, StorageKind } from '../../src/tensor/storage/storage.js';
import { StorageRange } from '../../src/tensor/storage-range.js';
import { safeOpen } from '../support/api.js';
import { countedBytes, writeTemporary } from '../support/make-file.js';

const entries = [
  { name: 'a', dtype: 'U8', shape: [4] },
  { name: 'b', dtype: 'U8', shape: [4, 3] },
] as const;

function given(changes: Partial<Storage> = {}): Storage {
  const storage = new MemoryStorage(new Uint8Array(countedBytes(16)), 16, 'path');
  for (const [name, value] of Object.entries(changes)) {
    Object.defineProperty(storage, name, { value });
  }
  return storage;
}

/** A storage that copies. */
function copying() {
  const fill = vi.fn((target: Uint8Array, position: number) =>
    target.set(countedBytes(16).subarray(position, position + target.length)),
  );
  const storage = new ComputedStorage(16, { storage: given(), begin: 0, byteLength: 16 }, fill);
  return { storage, fill };
}

describe('parts', () => {
  test('are memory of the whole, until a storage that copies has read them', () => {
    for (const storage of [given(), copying().storage]) {
      const whole = new StorageRange(storage, 'x', 4, 12);
      const part = whole.part(2, 3);
      expect(part.owner).toBe(whole);
      part.resolve();
      expect(part.owner).toBe(storage.zeroCopy ? whole : part);
    }
  });

  test('are not kept by the storage', () => {
    const { storage } = copying();
    const bytes = vi.spyOn(storage, 'bytes');
    const whole = new StorageRange(storage, 'x', 4, 12);
    const { buffer } = whole.part(2, 3).resolve();
    expect([...new Uint8Array(buffer)]).toEqual([7, 8, 9]);
    expect(bytes).not.toHaveBeenCalled();
    whole.resolve();
    expect(bytes).toHaveBeenCalledTimes(1);
  });
});

test('the first buffer that a range gets is its own', () => {
  const range = new StorageRange(copying().storage, 'x', 4, 8);
  const buffer = new ArrayBuffer(4);
  range.adopt(buffer);
  range.adopt(new ArrayBuffer(4));
  expect(range.resolve().buffer).toBe(buffer);
});

test('a copy of nothing asks the storage for nothing', () => {
  const { storage, fill } = copying();
  const range = new StorageRange(storage, 'x', 4, 8);
  range.copyTo(new Uint8Array(0), 2);
  expect(fill).not.toHaveBeenCalled();
  range.copyTo(new Uint8Array(1), 2);
  expect(fill).toHaveBeenCalledTimes(1);
});

describe('windows', () => {
  const firstChunk = (storage: 'mmap' | 'read') => {
    using file = safeOpen(writeTemporary(entries), { storage });
    const tensor = file.getTensor('b');
    tensor.bytes[0] = 200;
    const [chunk] = tensor.chunks({ maxByteLength: 3 });
    return { tensor, chunk };
  };

  test('over a mapping have buffers of their own, of the same memory', () => {
    const { tensor, chunk } = firstChunk('mmap');
    expect(chunk?.buffer).not.toBe(tensor.buffer);
    expect([...new Uint8Array(chunk?.buffer ?? [])]).toEqual([200, 2, 3]);
  });

  test('of what was read before are views of that', () => {
    const { tensor, chunk } = firstChunk('read');
    expect(chunk?.buffer).toBe(tensor.buffer);
    expect([...(chunk ?? [])]).toEqual([200, 2, 3]);
  });
});

test('pages are asked for where they are in the file', async () => {
  const populateRanges = vi.fn(async () => {});
  const range = new StorageRange(given({ populateRanges }), 'x', 4, 12);
  await range.populate(Float64Array.of(0, 2, 3, 1));
  expect(populateRanges).toHaveBeenCalledWith(Float64Array.of(4, 2, 7, 1));
});

describe('memory for passing use and for other threads', () => {
  test.each<[StorageKind, string, string, boolean]>([
    ['memory', 'open', 'not used', false],
    ['mmap', 'open', 'not used', true],
    ['mmap', 'open', 'used', true],
    ['mmap', 'ended', 'not used', true],
    ['mmap', 'ended', 'used', false],
    ['read', 'open', 'not used', true],
    ['read', 'open', 'used', false],
    ['read', 'ended', 'used', false],
  ])('of storage %s, %s, a tensor that was %s: %s', (kind, state, use, isThere) => {
    const held = Uint8Array.of(1, 2);
    const hold = vi.fn(() => held);
    const range = new StorageRange(given({ kind, ended: state === 'ended', hold }), 'x', 4, 8);
    if (use === 'used') range.resolve();
    expect(range.isHoldable).toBe(isThere);
    expect(range.hold(1, 3)).toBe(isThere ? held : undefined);
    if (isThere) expect(hold).toHaveBeenCalledWith(5, 7);
  });

  test('that is not there is an error with the tensor and the length', () => {
    const take = () => {
      throw outOfMemory(0, {});
    };
    const storage = given({ kind: 'mmap', hold: take, window: take });
    const range = new StorageRange(storage, 'x', 4, 8);
    for (const use of [() => range.hold(1, 3), () => range.window(1, 3)]) {
      expect(use).toThrow(/^path: tensor "x": not enough memory for a copy of 2 bytes$/);
    }
  });
});

test('of a closed file that changed, copies that were made stay, and no others', () => {
  const path = writeTemporary(entries);
  const file = safeOpen(path, { storage: 'read' });
  const [made, other] = [file.getTensor('b'), file.getTensor('a')];
  void made.bytes;
  file.close();
  truncateSync(path, 100);
  expect([...made.copy().bytes]).toEqual([...countedBytes(12)]);
  expect(() => other.copy()).toThrow(expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' }));
});
