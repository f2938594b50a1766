import { constants } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { statSync, truncateSync } from 'node:fs';
import process from 'node:process';
import { MessageChannel, Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { copyFrom, gatherFrom } from '../../src/tensor/copies.js';
import { planSlice } from '../../src/tensor/slice.js';
import type { StorageRange } from '../../src/tensor/storage-range.js';
import { TensorOf } from '../../src/tensor/tensor.js';
import { DTYPES, type Dtype, mappingStatus, safeOpen } from '../support/api.js';
import { countedBytes, writeSparse, writeTemporary } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';
import { openers } from './openers.js';

describe.each(openers)('%s', (kind, open) => {
  test.each(Object.keys(DTYPES) as Dtype[])('%s: the same in memory of its own', (dtype) => {
    const tensor = open([{ name: 't', dtype, shape: [2, 4] }], { padding: 3 }).getTensor('t');
    const copy = tensor.copy();
    expect(copy).toMatchObject({ name: 't', dtype, shape: [2, 4], isAligned: true });
    expect(copy.bytes).toEqual(countedBytes(DTYPES[dtype].bits));
    expect([copy.byteOffset, copy.buffer.byteLength]).toEqual([0, copy.byteLength]);
    expect(copy.buffer).not.toBe(tensor.buffer);
    expect(copy.data).toEqual(tensor.data);
  });

  test('what is written to one is not seen by the other', () => {
    const tensor = open([{ name: 't', dtype: 'U8', shape: [4, 2] }]).getTensor('t');
    tensor.bytes[2] = 200;
    const [whole, row] = [tensor.copy(), tensor.slice(1).copy()];
    expect([...row.bytes]).toEqual([200, 4]);
    row.bytes.fill(7);
    whole.bytes.fill(8);
    expect([...tensor.bytes]).toEqual([1, 2, 200, 4, 5, 6, 7, 8]);
    expect(row.slice([0, 1]).buffer).toBe(row.buffer);
  });

  test('slices of every kind, scalars and nothing', () => {
    const file = open([
      { name: 't', dtype: 'I16', shape: [3, 2] },
      { name: 'scalar', dtype: 'F32', shape: [] },
      { name: 'empty', dtype: 'F32', shape: [0, 3] },
    ]);
    const tensor = file.getTensor('t');
    for (const slice of [tensor.slice([1, 3]), tensor.slice(null, 1), tensor.slice([1, 1])]) {
      const copy = slice.copy();
      expect(copy.shape).toEqual(slice.shape);
      expect(copy.bytes).toEqual(slice.bytes);
      expect(copy.buffer.byteLength).toBe(slice.byteLength);
    }
    expect(file.getTensor('scalar').copy().bytes).toEqual(countedBytes(4));
    expect(file.getTensor('empty').copy()).toMatchObject({ shape: [0, 3], byteLength: 0 });
  });

  test('closing the file leaves it, and stops none', () => {
    const file = open([
      { name: 'used', dtype: 'U8', shape: [2] },
      { name: 'unused', dtype: 'U8', shape: [2] },
      { name: 'empty', dtype: 'U8', shape: [0] },
    ]);
    const used = file.getTensor('used');
    const [unused, empty] = [file.getTensor('unused'), file.getTensor('empty')];
    const copy = used.copy();
    used.bytes;
    file.close();
    expect([...copy.bytes, ...used.copy().bytes]).toEqual([1, 2, 1, 2]);
    expect([...unused.copy().bytes, ...empty.copy().bytes]).toEqual([1, 2]);
  });

  test('a detaching close leaves it', () => {
    const file = open([{ name: 't', dtype: 'U8', shape: [4] }]);
    const copies = [file.getTensor('t').copy(), file.getTensor('t').slice([1, 3]).copy()];
    file.close({ detach: true });
    expect(copies.map(({ bytes }) => [...bytes])).toEqual([
      [1, 2, 3, 4],
      [2, 3],
    ]);
  });

  test('posting a slice takes the whole tensor along, posting a copy only its bytes', async () => {
    const tensor = open([{ name: 't', dtype: 'BF16', shape: [1000, 4] }]).getTensor('t');
    tensor.buffer;
    const worker = new Worker(
      `const { parentPort } = require('node:worker_threads');
      parentPort.on('message', ({ port, bytes }) => {
        port.postMessage([bytes.buffer.byteLength, ...bytes]);
        port.close();
      });`,
      { eval: true },
    );
    async function post(bytes: Uint8Array<ArrayBuffer>, moved: ArrayBuffer[]): Promise<unknown> {
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ port: port2, bytes }, [port2, ...moved]);
      const [answer] = await once(port1, 'message');
      return answer;
    }
    const slice = tensor.slice(1);
    expect(await post(slice.bytes, [])).toEqual([tensor.buffer.byteLength, ...slice.bytes]);
    const copy = slice.copy();
    const { buffer, bytes } = copy;
    expect(await post(bytes, [])).toEqual([8, ...slice.bytes]);
    expect(await post(bytes, [buffer])).toEqual([8, ...slice.bytes]);
    expect(buffer.byteLength).toBe(0);
    await worker.terminate();
  });

  test.skipIf(kind === 'memory')('a file that was cut short is an error', () => {
    const entries = [{ name: 't', dtype: 'F32', shape: [4096, 4] }] as const;
    for (const use of ['before', 'never'] as const) {
      const path = writeTemporary(entries);
      const file = safeOpen(path, { storage: kind as 'mmap' | 'read' });
      const tensor = file.getTensor('t');
      if (use === 'before' && kind === 'mmap') tensor.bytes;
      const slice = tensor.slice([4000, 4010]);
      truncateSync(path, 1000);
      for (const each of [tensor, slice]) {
        expect(() => each.copy()).toThrow(
          expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' }),
        );
      }
      expect(file.ok).toBe(false);
      file.close();
    }
  });
});

test('a file that is cut short while it is copied is an error', () => {
  const path = writeTemporary([{ name: 't', dtype: 'F32', shape: [4096, 4] }]);
  using file = safeOpen(path);
  const whole = TensorOf.sourceOf(file.getTensor('t'));
  const source: Pick<StorageRange, 'verify' | 'allocate' | 'copyTo'> = {
    verify: () => whole.verify(),
    allocate: (length) => whole.allocate(length),
    copyTo: (target, begin) => {
      truncateSync(path, 1000);
      whole.copyTo(target, begin);
    },
  };
  expect(() => copyFrom(source as StorageRange, 0, whole.byteLength)).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' }),
  );
});

test('a file that is cut short while a slice is gathered is an error', () => {
  const path = writeTemporary([{ name: 't', dtype: 'F32', shape: [4096, 4] }]);
  using file = safeOpen(path);
  const whole = TensorOf.sourceOf(file.getTensor('t'));
  const memory = whole.resolve();
  const source: Pick<StorageRange, 'verify' | 'allocate' | 'isShareable' | 'resolve'> = {
    verify: () => whole.verify(),
    allocate: (length) => whole.allocate(length),
    isShareable: true,
    resolve: () => {
      truncateSync(path, 1000);
      return memory;
    },
  };
  const column = planSlice([4096, 4], [null, 1], 32);
  expect(() => gatherFrom(source as StorageRange, 0, column)).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' }),
  );
});

test('a tensor keeps its bytes when its buffer over the mapping is transferred', () => {
  const tensor = safeOpen(writeTemporary([{ name: 't', dtype: 'U8', shape: [4] }])).getTensor('t');
  const { buffer } = tensor;
  const transfer = () => structuredClone(buffer, { transfer: [buffer] });
  const status = mappingStatus();
  if (status.available && !status.buffers.counted) {
    const moved = new Uint8Array(transfer());
    expect(moved).toEqual(countedBytes(4));
    expect(buffer.byteLength).toBe(0);
    moved[0] = 9;
    expect(tensor.bytes).toEqual(Uint8Array.of(9, 2, 3, 4));
    return;
  }
  if (Number.parseInt(process.versions.node, 10) === 20) {
    expect(new Uint8Array(transfer())).toEqual(countedBytes(4));
  } else {
    expect(transfer).toThrow(expect.objectContaining({ name: 'DataCloneError' }));
  }
  expect(tensor.buffer).toBe(buffer);
  expect(tensor.bytes).toEqual(countedBytes(4));
});

const tooLarge = 2 ** 32 + 2 ** 20;

test.runIf(tooLarge > constants.MAX_LENGTH)('above the limit for buffers it says so', () => {
  for (const storage of ['mmap', 'read'] as const) {
    using file = safeOpen(writeSparse(tooLarge), { storage });
    expect(() => file.getTensor('t').copy()).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_TENSOR_TOO_LARGE', tensor: 't' }),
    );
    expect(file.getTensor('t').slice(-1).copy().buffer.byteLength).toBe(2 ** 20);
  }
});

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;

test.runIf(hasPrlimit)('without memory for it, every copy is an error with a code', async () => {
  const byteLength = 2 ** 31;
  const path = writeSparse(byteLength);
  const found = await measureInChild('tensor/children/out-of-memory.mjs', [path]);
  const ends = (bytes: number, subject = `${path}: tensor "t": `): unknown => ({
    code: 'SAFETENSORS_OUT_OF_MEMORY',
    message: `${subject}not enough memory for a copy of ${bytes} bytes`,
    cause: 'RangeError',
  });
  expect(found).toEqual({
    copy: ends(byteLength),
    slice: ends(byteLength / 2),
    toFloat32: ends(2 * byteLength),
    toFloat32Async: ends(2 * byteLength),
    take: ends(byteLength),
    takeFloat32Async: ends(byteLength),
    load: ends(byteLength),
    // The same header, padded.
    serialize: ends(8 * Math.ceil(statSync(path).size / 8), ''),
    readBytes: ends(byteLength),
    readSlice: ends(byteLength / 2),
    readWindow: ends(byteLength / 2),
    readPrefetch: ends(byteLength),
    loadFile: ends(byteLength),
  });
});
