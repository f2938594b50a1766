import {
  appendFileSync,
  closeSync,
  openSync,
  readFileSync,
  renameSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { DTYPES, type OpenOptions, safeOpen } from '../support/api.js';
import { countedBytes, fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';

const entries = [
  { name: 'b', dtype: 'F32', shape: [2, 2] },
  { name: 'a', dtype: 'U8', shape: [3] },
  { name: '__proto__', dtype: 'BF16', shape: [] },
] as const;

const closedCode = expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' });
const changedCode = expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' });

describe.each(['mmap', 'read'] as const)('storage %s', (storage) => {
  const options: OpenOptions = { storage };

  test('names, facts and metadata', () => {
    const path = writeTemporary(entries, { metadata: { format: 'pt', '': 'empty' } });
    using file = safeOpen(path, options);
    expect(file).toMatchObject({ path, storage, size: 3, ok: true });
    expect(file.byteLength()).toBe(readFileSync(path).length);
    expect(file.keys()).toEqual(['__proto__', 'a', 'b']);
    expect(file.offsetKeys()).toEqual(['b', 'a', '__proto__']);
    expect(file.has('a')).toBe(true);
    expect(file.has('c')).toBe(false);
    expect(file.has('toString')).toBe(false);
    expect(file.info('a')).toEqual({ dtype: 'U8', shape: [3], dataOffsets: [16, 19] });
    expect(Object.isFrozen(file.info('a'))).toBe(true);
    expect(file.metadata).toEqual(
      new Map([
        ['format', 'pt'],
        ['', 'empty'],
      ]),
    );
    expect(file.metadata).toBe(file.metadata);
  });

  test('a list of names is not one name', () => {
    using file = safeOpen(writeTemporary(entries), options);
    expect(() => file.getTensors('ab')).toThrow(
      /names must be an iterable of strings, such as \["ab"\], but is "ab"/,
    );
  });

  test('no metadata is null, tensors are handed out in file order', () => {
    using file = safeOpen(writeTemporary(entries), options);
    expect(file.metadata).toBeNull();
    expect(Array.from(file, ([name]) => name)).toEqual(['b', 'a', '__proto__']);
    expect([...file.getTensors().keys()]).toEqual(['b', 'a', '__proto__']);
    const all = file.getTensors();
    for (const [name, tensor] of all) {
      expect(tensor).toBe(file.getTensor(name));
      expect(tensor.shape).toEqual(file.info(name).shape);
      expect(tensor.shape).toBe(tensor.shape);
      expect(Object.isFrozen(tensor.shape)).toBe(true);
    }
    expect([...file]).toEqual([...all]);
    const some = file.getTensors(['a', 'b']);
    expect([...some.keys()]).toEqual(['a', 'b']);
    expect(some.get('a')).toBe(file.getTensor('a'));
    for (const [name, tensor] of file) expect(tensor.name).toBe(name);
  });

  test('a file without tensors', () => {
    using file = safeOpen(writeTemporary([]), options);
    expect(file.size).toBe(0);
    expect(file.keys()).toEqual([]);
    expect([...file]).toEqual([]);
  });

  test('an unknown name lists near ones, another type is a TypeError', () => {
    using file = safeOpen(
      writeTemporary([
        { name: 'model.layers.0.weight', dtype: 'U8', shape: [1] },
        { name: 'model.layers.1.weight', dtype: 'U8', shape: [1] },
        { name: 'other', dtype: 'U8', shape: [1] },
      ]),
      options,
    );
    for (const [tensor, hint] of [
      ['Model.layers.1.weight', 'did you mean "model.layers.1.weight", "model.layers.0.weight"?'],
      ['Model.layers.2.weight', 'numbers in "model.layers.*" go from 0 to 1'],
    ] as const) {
      expect(() => file.getTensor(tensor)).toThrow(
        expect.objectContaining({
          name: 'TensorNotFoundError',
          code: 'SAFETENSORS_TENSOR_NOT_FOUND',
          tensor,
          path: file.path,
          message: `${file.path}: tensor "${tensor}": no such tensor; ${hint}`,
        }),
      );
    }
    expect(() => file.info('x')).toThrow(/no such tensor$/);
    expect(() => file.has(1 as never)).toThrow(/name must be a string, but is 1/);
  });

  test('everything asked of a closed file throws, closing again does not', () => {
    const file = safeOpen(writeTemporary(entries), options);
    const iterator = file[Symbol.iterator]();
    iterator.next();
    file.close();
    file.close();
    file.close({ detach: true });
    file[Symbol.dispose]();
    for (const use of [
      () => file.keys(),
      () => file.offsetKeys(),
      () => file.has('a'),
      () => file.info('a'),
      () => file.getTensor('a'),
      () => file.getTensors(),
      () => file.getSlice('a', 0),
      () => file.size,
      () => file.byteLength(),
      () => file.metadata,
      () => iterator.next(),
      () => [...file],
    ]) {
      expect(use).toThrow(closedCode);
    }
    expect(file).toMatchObject({ ok: false, storage, path: expect.any(String) });
  });

  test('using closes at the end of the block', () => {
    {
      using file = safeOpen(writeTemporary(entries), options);
      expect(file.ok).toBe(true);
      expect(openDescriptors()).toHaveLength(1);
    }
    expect(openDescriptors()).toEqual([]);
  });

  test('close({ detach: true }) empties every buffer that was handed out', () => {
    const file = safeOpen(writeTemporary(entries), options);
    const tensor = file.getTensor('a');
    const { bytes, data } = tensor;
    const [chunk] = file.getTensor('b').chunks();
    const gathered = file.getSlice('b', null, 1);
    file.close({ detach: true });
    expect([bytes.length, data.length, chunk?.length]).toEqual([0, 0, 0]);
    expect(() => tensor.bytes).toThrow(closedCode);
    // A gathered slice has separate memory.
    expect(Array.from(gathered.bytes)).toEqual([5, 6, 7, 8, 13, 14, 15, 16]);
  });

  test('what is written to a tensor stays in this process', () => {
    const path = writeTemporary(entries);
    const before = readFileSync(path);
    using file = safeOpen(path, options);
    using other = safeOpen(path, options);
    file.getTensor('a').bytes.fill(99);
    expect(file.getTensor('a').bytes).toEqual(Uint8Array.of(99, 99, 99));
    expect(other.getTensor('a').bytes).toEqual(countedBytes(3));
    expect(readFileSync(path)).toEqual(before);
  });

  test('a file that was cut short is refused for good', async () => {
    const path = writeTemporary(entries);
    const whole = readFileSync(path);
    using file = safeOpen(path, options);
    const early = file.getTensor('a');
    truncateSync(path, whole.length - 1);
    await setTimeout(5); // getTensor asks the system once per millisecond.
    expect(() => file.getTensor('a')).toThrow(changedCode);
    expect(() => early.bytes).toThrow(changedCode);
    expect(file.ok).toBe(false);
    writeFileSync(path, whole);
    expect(() => file.getTensor('a')).toThrow(changedCode);
    expect(file.keys()).toEqual(['__proto__', 'a', 'b']);
  });

  test('copies of a file that was cut short are refused, views read on', () => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, options);
    const tensor = file.getTensor('b');
    tensor.buffer;
    truncateSync(path, 20);
    expect(() => tensor.toFloat32()).toThrow(changedCode);
    expect(() => tensor.slice(null, 1)).toThrow(changedCode);
    expect(tensor.slice(1).byteLength).toBe(8);
  });

  test('an empty tensor of a closed file is there as others are, but not after a detaching close', () => {
    const open = () => safeOpen(writeTemporary([{ name: 'e', dtype: 'U8', shape: [0] }]), options);
    const [closed, detached] = [open(), open()];
    const tensors = [closed.getTensor('e'), detached.getTensor('e')];
    closed.close();
    detached.close({ detach: true });
    expect(tensors[0]?.bytes.length).toBe(0);
    expect(() => tensors[1]?.bytes).toThrow(closedCode);
  });

  test('a file that grew is refused', () => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, options);
    appendFileSync(path, 'x');
    expect(() => file.getTensor('a')).toThrow(changedCode);
  });

  test('a file that was only touched is not', () => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, options);
    for (const second of [1, 2]) {
      utimesSync(path, second, second);
      expect(file.getTensor('a').bytes).toEqual(countedBytes(3));
    }
    expect(file.ok).toBe(true);
  });

  test('a file whose header was rewritten in place is refused', () => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, options);
    const other = fileBytes(entries.map((entry) => ({ ...entry, name: entry.name.toUpperCase() })));
    expect(other.length).toBe(file.byteLength());
    const fd = openSync(path, 'r+');
    writeSync(fd, other);
    closeSync(fd);
    utimesSync(path, 1, 1);
    expect(() => file.getTensor('a')).toThrow(changedCode);
    expect(file.ok).toBe(false);
  });

  test('a file replaced by rename goes on as the old one', () => {
    const path = writeTemporary(entries);
    using file = safeOpen(path, options);
    const next = temporaryPath('next');
    writeFileSync(next, fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]));
    renameSync(next, path);
    expect(file.getTensor('a').bytes).toEqual(countedBytes(3));
  });
});

// Node 20 has no transfer() for buffers.
const canTransfer = 'transfer' in ArrayBuffer.prototype;
test.skipIf(!canTransfer)('a buffer moved elsewhere does not stop a detaching close', () => {
  const file = safeOpen(writeTemporary(entries), { storage: 'read' });
  const moved = file.getTensor('a').buffer as ArrayBuffer & { transfer(): ArrayBuffer };
  const rest = file.getTensor('b').bytes;
  const elsewhere = moved.transfer();
  file.close({ detach: true });
  expect(rest.length).toBe(0);
  expect(elsewhere.byteLength).toBe(3);
});

test('the facts about dtypes cannot be changed', () => {
  expect(() => Object.assign(DTYPES.F32, { bits: 8 })).toThrow(TypeError);
});
