/** An open file of another format, as the only shard of a checkpoint: tensors of the file itself, and tensors that are made. */
import { truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { crc32, deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { Checkpoint } from '../../src/file/checkpoint/checkpoint.js';
import { singleFile } from '../../src/file/checkpoint/find-files.js';
import { LazyShards } from '../../src/file/checkpoint/lazy-shards.js';
import { ForeignShard } from '../../src/foreign/foreign-shard.js';
import { InflatedEntries } from '../../src/foreign/inflated-data.js';
import { openForeign } from '../../src/foreign/open-file.js';
import { tensorData } from '../../src/foreign/tensor-data.js';
import type { ForeignTensor } from '../../src/foreign/tensors/foreign-tensor.js';
import { checkLayout } from '../../src/foreign/tensors/tensor-layout.js';
import { TensorOf } from '../../src/tensor/tensor.js';
import {
  FileChangedError,
  FileClosedError,
  safeOpen,
  saveFile,
  type Tensor,
  TensorNotFoundError,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';

const VALUES = Float32Array.from({ length: 12 }, (_, i) => i + 0.5);
const TRANSPOSED = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11].map((i) => i + 0.5);

/** 16 bytes, twelve numbers, and the same numbers deflated. */
function writeRaw(): { path: string; deflated: Buffer } {
  const deflated = deflateRawSync(new Uint8Array(VALUES.buffer));
  const path = temporaryPath('raw.bin');
  writeFileSync(
    path,
    Buffer.concat([Buffer.alloc(16, 1), new Uint8Array(VALUES.buffer), deflated]),
  );
  return { path, deflated };
}

function openRaw(options: { storage?: 'mmap' | 'read' } = {}): { path: string; file: Checkpoint } {
  const { path, deflated } = writeRaw();
  const file = openForeign(path, options, () => (storage) => {
    const entries = new InflatedEntries(storage, {});
    const entry = {
      name: 'd',
      begin: 64,
      end: 64 + deflated.length,
      byteLength: 48,
      crc32: crc32(new Uint8Array(VALUES.buffer)),
    };
    const held = { storage, begin: 16, byteLength: 48 };
    const tensorOf = (
      name: string,
      strides: number[],
      shape: number[],
      data = held,
    ): ForeignTensor => {
      const given = { itemByteLength: 4, shape, strides, offset: 0 };
      const layout = checkLayout(given, 48, {}, 'SAFETENSORS_INVALID_NUMPY', { tensor: name });
      const memory = { storage: data, storageByteLength: 48, byteOffset: 0, strides };
      return { name, dtype: 'F32', shape, ...memory, data: tensorData(data, layout, undefined) };
    };
    const shard = new ForeignShard(storage, [
      tensorOf('inflated', [4, 1], [3, 4], entries.dataOf({ ...entry, method: 'deflated' })),
      tensorOf('inflated.T', [1, 4], [4, 3], entries.dataOf({ ...entry, method: 'deflated' })),
      tensorOf(
        'plain',
        [4, 1],
        [3, 4],
        entries.dataOf({ ...entry, method: 'stored', begin: 16, end: 64 }),
      ),
      tensorOf('transposed', [1, 4], [4, 3]),
    ]);
    return Checkpoint.of(LazyShards.ofOpen(singleFile(path), [[0, shard]]));
  });
  return { path, file };
}

const values = (tensor: Tensor): number[] => [...tensor.expectDtype('F32').data];

describe.each(['mmap', 'read'] as const)('with storage %s', (storage) => {
  test('tensors have their values, and slices and chunks theirs', () => {
    const { file } = openRaw({ storage });
    expect(file.keys()).toEqual(['inflated', 'inflated.T', 'plain', 'transposed']);
    expect(file.offsetKeys()).toEqual(['plain', 'transposed', 'inflated', 'inflated.T']);
    expect(file.storage).toBe(storage);
    expect(file.info('transposed')).toEqual({ dtype: 'F32', shape: [4, 3], dataOffsets: [16, 64] });
    expect(values(file.getTensor('plain'))).toEqual([...VALUES]);
    expect(values(file.getTensor('transposed'))).toEqual(TRANSPOSED);
    expect(values(file.getTensor('inflated'))).toEqual([...VALUES]);
    expect(values(file.getTensor('inflated.T'))).toEqual(TRANSPOSED);
    expect(values(file.getSlice('transposed', 2))).toEqual([2.5, 6.5, 10.5]);
    expect(values(file.getSlice('transposed', [null, null, 2], 1))).toEqual([4.5, 6.5]);
    const chunks = [...file.getTensor('transposed').chunks({ maxByteLength: 12 })];
    expect(Buffer.concat(chunks)).toEqual(Buffer.from(Float32Array.from(TRANSPOSED).buffer));
    file.close();
  });

  test('a tensor is the same object and the same memory on every call', () => {
    const { file } = openRaw({ storage });
    const tensor = file.getTensor('transposed').expectDtype('F32');
    tensor.data[0] = -1;
    expect(file.getTensor('transposed')).toBe(tensor);
    expect(file.getSlice('transposed', 0).expectDtype('F32').data[0]).toBe(-1);
    file.close();
  });

  test('readTensors gives memory of its own, in the order asked for', async () => {
    const { file } = openRaw({ storage });
    const seen: number[] = [];
    const tensors = await file.readTensors(['transposed', 'plain', 'inflated'], {
      onProgress: ({ bytes }) => seen.push(bytes),
    });
    file.close({ detach: true });
    expect([...tensors.keys()]).toEqual(['transposed', 'plain', 'inflated']);
    expect([...tensors.values()].map(values)).toEqual([TRANSPOSED, [...VALUES], [...VALUES]]);
    expect(seen.at(-1)).toBe(144);
  });

  test('prefetch brings all, or those named', async () => {
    const { file } = openRaw({ storage });
    await file.prefetch();
    await file.prefetch(['transposed', 'plain']);
    await expect(file.prefetch(['none'])).rejects.toThrow(TensorNotFoundError);
    await expect(
      file.prefetch(undefined, { signal: AbortSignal.abort(new Error('no')) }),
    ).rejects.toThrow('no');
    expect(values(file.getTensor('inflated'))).toEqual([...VALUES]);
    file.close();
  });

  test('tensors are saved as any others, and converted on the pool', async () => {
    const { file } = openRaw({ storage });
    expect([...(await file.getTensor('transposed').toFloat32Async())]).toEqual(TRANSPOSED);
    const target = temporaryPath('saved.safetensors');
    await saveFile(target, file.getTensors());
    // Written in pieces, none of which is kept.
    expect(TensorOf.sourceOf(file.getTensor('inflated.T')).isResolved).toBe(false);
    file.close();
    const saved = safeOpen(target);
    expect(values(saved.getTensor('transposed'))).toEqual(TRANSPOSED);
    expect(values(saved.getTensor('inflated.T'))).toEqual(TRANSPOSED);
    expect(values(saved.getTensor('plain'))).toEqual([...VALUES]);
    saved.close();
  });

  test('after close, tensors that were handed out stay, and all else is refused', () => {
    const { file } = openRaw({ storage });
    const made = file.getTensor('transposed');
    const unused = file.getTensor('inflated');
    expect(made.bytes.length).toBe(48);
    file.close();
    file.close();
    expect(values(made)).toEqual(TRANSPOSED);
    expect(values(unused)).toEqual([...VALUES]);
    expect(() => file.getTensor('plain')).toThrow(FileClosedError);
    expect(() => file.keys()).toThrow(FileClosedError);
    expect(file.ok).toBe(false);
    expect(Object.keys(JSON.parse(JSON.stringify(file)))).toEqual([
      'path',
      'shards',
      'storage',
      'ok',
    ]);
  });

  test('a read that has begun goes on when the file is closed, and leaves nothing', async () => {
    const { file } = openRaw({ storage });
    const loading = file.readTensors();
    file.close();
    const loaded = await loading;
    expect([...loaded.keys()]).toEqual(['plain', 'transposed', 'inflated', 'inflated.T']);
    expect(values(loaded.get('inflated.T') as Tensor)).toEqual(TRANSPOSED);
    expect(values(loaded.get('plain') as Tensor)).toEqual([...VALUES]);
    expect(openDescriptors()).toEqual([]);
  });

  test('a detaching close empties what was handed out', () => {
    const { file } = openRaw({ storage });
    const { bytes } = file.getTensor('transposed');
    file.close({ detach: true });
    expect(bytes.length).toBe(0);
  });

  test('a file that changed is refused', () => {
    const { path, file } = openRaw({ storage });
    const made = file.getTensor('transposed');
    utimesSync(path, 1, 1);
    expect(values(made)).toEqual(TRANSPOSED);
    truncateSync(path, 20);
    expect(() => file.getTensor('inflated').bytes).toThrow(FileChangedError);
    file.close();
  });
});

test('an unknown name has near ones in its error', () => {
  const { file } = openRaw();
  expect(() => file.getTensor('transpose')).toThrow('did you mean "transposed"?');
  expect(() => file.getTensors('plain')).toThrow(TypeError);
  file.close();
});

test('when parsing throws, nothing stays open', () => {
  const { path } = writeRaw();
  const open = (): unknown =>
    openForeign(path, {}, (start, file) => {
      expect(start.length).toBe(file.byteLength);
      throw new Error('not this one');
    });
  for (let i = 0; i < 3000; i++) expect(open).toThrow('not this one');
});
