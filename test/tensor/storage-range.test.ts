/** Which bytes of a tensor may be taken from its file, and which only from memory. */
import { truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { layOut } from '../../src/header/header-writer.js';
import { readSpec } from '../../src/header/tensor-spec.js';
import { ComputedStorage } from '../../src/tensor/storage/computed.js';
import { emptyBuffers } from '../../src/tensor/storage/empty-buffers.js';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';
import type { Storage } from '../../src/tensor/storage/storage.js';
import { StorageRange } from '../../src/tensor/storage-range.js';
import {
  type MemoryPayload,
  memoryEntries,
  type TensorInput,
} from '../../src/write/input/tensor-input.js';
import { thrownBy } from '../header/header-files.js';
import {
  type Checkpoint,
  type Dtype,
  FileClosedError,
  loadFile,
  parse,
  safeOpen,
  serialize,
  type Tensor,
} from '../support/api.js';
import { countedBytes, fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';

const entries = [
  { name: 'a', dtype: 'F32', shape: [2, 2] },
  { name: 'b', dtype: 'U8', shape: [4, 3] },
  { name: 'empty', dtype: 'U8', shape: [0] },
] as const;

const KINDS = ['mmap', 'read'] as const;

function payloadOf(tensor: TensorInput<Dtype, never>) {
  const [entry] = memoryEntries({ x: tensor });
  return entry?.payload as NonNullable<typeof entry>['payload'];
}

function bytesOf(payload: { kind: string }, byteLength: number): number[] {
  expect(payload.kind).toBe('memory');
  return [...(payload as MemoryPayload).window(0, byteLength)];
}

/** The contents of a file saved from it. */
function saved(tensor: Tensor): number[] {
  return [...parse(serialize({ x: tensor })).getTensor('x').bytes];
}

describe.each(KINDS)('tensors of a file, storage %s', (storage) => {
  const open = () => safeOpen(writeTemporary(entries), { storage });

  test('come from the file as long as nobody had their memory', () => {
    using file = open();
    const tensor = file.getTensor('b');
    // Facts are not memory.
    void [tensor.shape, tensor.byteLength, tensor.isAligned];
    const position = file.byteLength() - 12;
    expect(payloadOf(tensor)).toMatchObject({ kind: 'file', position });
    const rows = payloadOf(tensor.slice([1, 3]));
    expect(rows).toMatchObject({ kind: 'file', position: position + 3 });
    expect(saved(tensor)).toEqual([...countedBytes(12)]);
    expect(saved(tensor.slice([1, 3]))).toEqual([4, 5, 6, 7, 8, 9]);
    expect(payloadOf(tensor).kind).toBe('file');
    expect(saved(file.getTensor('empty'))).toEqual([]);
  });

  test('keep their own name or get the one given', () => {
    using file = open();
    const [entry] = memoryEntries({ other: file.getTensor('a') });
    expect(entry).toMatchObject({ name: 'other', dtype: 'F32', shape: [2, 2], byteLength: 16 });
    expect(memoryEntries(file).map(({ name }) => name)).toEqual(['a', 'b', 'empty']);
  });

  test.each([
    ['buffer', (tensor: Tensor) => new Uint8Array(tensor.buffer, tensor.byteOffset)],
    ['bytes', (tensor: Tensor) => tensor.bytes],
    ['data', (tensor: Tensor) => tensor.data as Uint8Array],
    ['view', (tensor: Tensor) => tensor.view(Uint8Array)],
  ])('come from memory after %s, with what was written to it', (_, take) => {
    using file = open();
    const tensor = file.getTensor('b');
    take(tensor)[7] = 200;
    const expected = [1, 2, 3, 4, 5, 6, 7, 200, 9, 10, 11, 12];
    expect(bytesOf(payloadOf(tensor), 12)).toEqual(expected);
    expect((payloadOf(tensor) as MemoryPayload).window(3, 5).buffer).toBe(tensor.buffer);
    expect(saved(tensor)).toEqual(expected);
    expect(saved(tensor.slice([2, 3]))).toEqual([7, 200, 9]);
  });

  test('a change through a slice that shares the memory is saved', () => {
    using file = open();
    const tensor = file.getTensor('b');
    if (storage === 'read') tensor.bytes;
    tensor.slice([1, 2]).bytes[0] = 200;
    expect(saved(tensor)).toEqual([1, 2, 3, 200, 5, 6, 7, 8, 9, 10, 11, 12]);
  });

  test('a slice that was gathered is memory of its own', () => {
    using file = open();
    const tensor = file.getTensor('b');
    const column = tensor.slice(null, [0, 2]);
    column.bytes[0] = 200;
    expect(saved(column)).toEqual([200, 2, 4, 5, 7, 8, 10, 11]);
    expect(saved(tensor)).toEqual([...countedBytes(12)]);
  });

  test('are untouched by a slice of nothing', () => {
    using file = open();
    const tensor = file.getTensor('b');
    expect([...tensor.slice(null, [2, 2]).bytes]).toEqual([]);
    expect(payloadOf(tensor).kind).toBe('file');
  });

  test('of a closed file come from the mapping or, by the descriptor, from the file', () => {
    const file = open();
    const [a, b, empty] = ['a', 'b', 'empty'].map((name) => file.getTensor(name)) as Tensor[];
    (b as Tensor).bytes[0] = 200;
    file.close();
    expect(saved(b as Tensor)[0]).toBe(200);
    expect(payloadOf(a as Tensor).kind).toBe(storage === 'read' ? 'file' : 'memory');
    expect(saved(a as Tensor)).toEqual([...countedBytes(16)]);
    expect(saved(empty as Tensor)).toEqual([]);
  });

  test('of a file closed with detach are refused', () => {
    const file = open();
    const [used, unused] = [file.getTensor('b'), file.getTensor('a')];
    used.bytes;
    file.close({ detach: true });
    for (const weight of [used, unused]) {
      const error = thrownBy(() => serialize({ weight }));
      expect(error).toBeInstanceOf(FileClosedError);
      expect(error).toMatchObject({ tensor: 'weight', path: file.path });
    }
  });

  test('whose buffer was transferred are what the tensor shows now', () => {
    using file = open();
    const tensor = file.getTensor('b');
    tensor.bytes[0] = 200;
    emptyBuffers([tensor.buffer], (buffer) => structuredClone(buffer, { transfer: [buffer] }));
    expect(saved(tensor)).toEqual([...tensor.bytes]);
  });

  test('of a file that changed are refused', () => {
    for (const isTaken of [true, false]) {
      const file = open();
      const tensor = file.getTensor('b');
      if (isTaken) tensor.bytes;
      const path = file.path as string;
      const other = [{ ...entries[0], name: 'c' }, ...entries.slice(1)];
      writeFileSync(path, fileBytes(other));
      utimesSync(path, 1, 1);
      expect(() => serialize({ tensor })).toThrow(
        expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED', path }),
      );
      file.close();
    }
  });

  test.runIf(process.platform === 'linux')('take a descriptor only while they are read', () => {
    const file = open();
    const opened = openDescriptors();
    expect(opened).toHaveLength(1);
    serialize(file);
    expect(openDescriptors()).toEqual(opened);
    file.close({ detach: true });
    expect(openDescriptors()).toEqual([]);
    expect(() => serialize(file)).toThrow(FileClosedError);
  });
});

describe('chunks', () => {
  test('over a mapping are memory of the tensor: a change is saved', () => {
    using file = safeOpen(writeTemporary(entries), { storage: 'mmap' });
    const tensor = file.getTensor('b');
    for (const chunk of tensor.chunks({ maxByteLength: 3 })) chunk[0] = 200;
    expect(payloadOf(tensor).kind).toBe('memory');
    expect(saved(tensor)).toEqual([200, 2, 3, 200, 5, 6, 200, 8, 9, 200, 11, 12]);
  });

  test('of a reading storage are copies: the tensor is saved as it is in the file', () => {
    using file = safeOpen(writeTemporary(entries), { storage: 'read' });
    const tensor = file.getTensor('b');
    for (const chunk of tensor.chunks({ maxByteLength: 3 })) chunk[0] = 200;
    expect(payloadOf(tensor).kind).toBe('file');
    expect(saved(tensor)).toEqual([...countedBytes(12)]);
  });
});

describe('tensors in memory', () => {
  test('of parse and of loadFile, with their changes', async () => {
    const bytes = fileBytes(entries);
    using file = safeOpen(writeTemporary(entries));
    const loaded = (await file.readTensors(['b'])).get('b') as Tensor;
    const taken = loadFile(writeTemporary(entries)).get('b') as Tensor;
    for (const tensor of [parse(bytes).getTensor('b'), loaded, taken]) {
      expect(payloadOf(tensor).kind).toBe('memory');
      tensor.bytes[0] = 200;
      expect(saved(tensor)).toEqual([200, ...countedBytes(12).subarray(1)]);
    }
  });

  test('of parse, when that was closed', () => {
    const file = parse(fileBytes(entries));
    const [a, b] = [file.getTensor('a'), file.getTensor('b')];
    b.bytes;
    file.close();
    expect(saved(b)).toEqual([...countedBytes(12)]);
    expect(saved(a)).toEqual([...countedBytes(16)]);
  });

  test('whose memory went away are refused, naming the tensor', () => {
    const bytes = fileBytes(entries);
    const tensor = parse(bytes).getTensor('b');
    structuredClone(bytes, { transfer: [bytes.buffer as ArrayBuffer] });
    expect(() => serialize({ weight: tensor })).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_INVALID_TENSOR_VIEW', tensor: 'weight' }),
    );
  });
});

describe('a tensor of 5 GiB, which no buffer of Node 20 can hold', () => {
  const byteLength = 5 * 2 ** 30;

  /** Sparse: it takes no room on the disk. */
  function openLarge(): Checkpoint {
    const path = temporaryPath('large.safetensors');
    const { header } = layOut([readSpec('l', { dtype: 'U8', shape: [5, 2 ** 30] })]);
    writeFileSync(path, header);
    truncateSync(path, header.length + byteLength);
    return safeOpen(path, { storage: 'mmap' });
  }

  test('comes from the file, and window by window from memory once chunks were handed out', () => {
    using file = openLarge();
    const tensor = file.getTensor('l');
    expect(payloadOf(tensor)).toMatchObject({
      kind: 'file',
      position: file.byteLength() - byteLength,
    });
    const [first] = tensor.chunks({ maxByteLength: 2 ** 30 });
    (first as Uint8Array)[9] = 200;
    const payload = payloadOf(tensor) as MemoryPayload;
    expect(payload.kind).toBe('memory');
    expect([...payload.window(8, 11)]).toEqual([0, 200, 0]);
    expect([...payload.window(byteLength - 2, byteLength)]).toEqual([0, 0]);
    payload.verify();
  });

  test('shows what was written to a slice', () => {
    using file = openLarge();
    const tensor = file.getTensor('l');
    const row = tensor.slice(4, [0, 16]);
    expect(payloadOf(row).kind).toBe('file');
    row.bytes[1] = 200;
    const payload = payloadOf(tensor) as MemoryPayload;
    expect(payload.kind).toBe('memory');
    expect([...payload.window(2 ** 32, 2 ** 32 + 3)]).toEqual([0, 200, 0]);
    expect(saved(row)[1]).toBe(200);
    expect(saved(tensor.slice(4, [0, 2]))).toEqual([0, 200]);
  });

  test('of a closed file comes window by window from the mapping, with what was written to chunks', () => {
    const file = openLarge();
    const tensor = file.getTensor('l');
    const [chunk] = tensor.chunks();
    (chunk as Uint8Array)[9] = 200;
    file.close();
    const payload = payloadOf(tensor) as MemoryPayload;
    expect([...payload.window(8, 11)]).toEqual([0, 200, 0]);
    expect([...payload.window(byteLength - 2, byteLength)]).toEqual([0, 0]);
    payload.verify();
  });
});

test('a range gets a buffer up to the longest that the runtime has', () => {
  const storage = new MemoryStorage(new Uint8Array(10), 4, 'path');
  expect(new StorageRange(storage, 't', 3, 7).resolve().byteOffset).toBe(3);
  const tooLong = new StorageRange(storage, 't', 3, 8);
  expect(tooLong.isShareable).toBe(false);
  expect(() => tooLong.resolve()).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_TENSOR_TOO_LARGE', tensor: 't', path: 'path' }),
  );
});

describe('what a range tells of its storage', () => {
  test('is that of a mapping only over a mapping', () => {
    const path = writeTemporary(entries);
    for (const storage of KINDS) {
      using file = safeOpen(path, { storage });
      const payload = payloadOf(file.getTensor('b'));
      expect(payload.kind).toBe('file');
      void file.getTensor('b').bytes;
      const memory = payloadOf(file.getTensor('b')) as MemoryPayload;
      expect(memory.storage === undefined, storage).toBe(storage === 'read');
    }
    expect((payloadOf(parse(fileBytes(entries)).getTensor('b')) as MemoryPayload).storage).toBe(
      undefined,
    );
  });

  test('memory beside it, up to the last byte, is other memory', () => {
    const memory = new Uint8Array(16);
    const range = new StorageRange(new MemoryStorage(memory, 16), 'x', 4, 8);
    const isIn = (begin: number, end: number) => range.isIn(memory.subarray(begin, end));
    expect([isIn(0, 4), isIn(8, 16), range.isIn(new Uint8Array(16))]).toEqual([
      false,
      false,
      false,
    ]);
    expect([isIn(0, 5), isIn(7, 16), isIn(5, 6), isIn(0, 16), isIn(4, 8)]).toEqual(
      new Array(5).fill(true),
    );
  });

  test('can be shared when a buffer holds its bytes, wherever these begin', () => {
    const storage = new MemoryStorage(new Uint8Array(16), 4);
    const lengths = [3, 4, 5].filter((length) => {
      const range = new StorageRange(storage, 'x', 8, 8 + length);
      return range.isShareable;
    });
    expect(lengths).toEqual([3, 4]);
  });

  test('is asked nothing more of a storage that copies, once it has its bytes', () => {
    const memory = new MemoryStorage(new Uint8Array(16), 16);
    const held = { storage: memory, begin: 0, byteLength: 16 };
    for (const [storage, times] of [
      [new ComputedStorage(16, held, () => {}), 1],
      [memory, 0],
    ] as const) {
      const removeReader = vi.spyOn(storage, 'removeReader');
      const range = new StorageRange(storage, 'x', 4, 8);
      range.resolve();
      range.resolve();
      expect(removeReader).toHaveBeenCalledTimes(times);
      range.endReading();
      range.endReading();
      expect(removeReader).toHaveBeenCalledTimes(1);
      removeReader.mockRestore();
    }
  });

  test.each([
    ['an open file', false, true, 'rejected'],
    ['a closed file, of bytes that are there', true, true, 'fulfilled'],
    ['a closed file, of bytes that are gone', true, false, 'rejected'],
  ])('pages that do not come are an error of %s', async (_, isEnded, isThere, status) => {
    const storage = new MemoryStorage(new Uint8Array(16), 16) as Storage;
    const range = new StorageRange(storage, 'x', 4, 8);
    if (isThere) range.resolve();
    storage.populateRanges = async () => {
      Object.defineProperty(storage, 'ended', { value: isEnded });
      throw new Error('no pages');
    };
    const [result] = await Promise.allSettled([range.populate(new Float64Array([0, 4]))]);
    expect(result?.status).toBe(status);
  });
});
