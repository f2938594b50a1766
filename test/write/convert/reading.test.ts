/** The bytes of its source that `convert` reads, and how often. */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import * as readEntries from '../../../src/foreign/read-entry.js';
import * as readArchives from '../../../src/foreign/zip/read-archive.js';
import * as fileCalls from '../../../src/platform/io/file-calls.js';
import * as kernels from '../../../src/tensor/float32/kernels.js';
import { convert, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { type ArchivedFile, writeArchive } from './archives.js';

vi.mock('../../../src/foreign/zip/read-archive.js', { spy: true });
vi.mock('../../../src/foreign/read-entry.js', { spy: true });
vi.mock('../../../src/tensor/float32/kernels.js', { spy: true });
vi.mock('../../../src/platform/io/file-calls.js', { spy: true });

const fast = { durable: false, overwrite: true };
const bytes = Buffer.alloc(4_000_000, 'weights ');

/** A header of NumPy, and these bytes as an array. */
function npy(data: Buffer, dtype: string, itemByteLength: number): Buffer {
  const shape = `(${data.length / itemByteLength},)`;
  const text = `{'descr': '${dtype}', 'fortran_order': False, 'shape': ${shape}, }`.padEnd(117);
  return Buffer.concat([
    Buffer.from('\x93NUMPY\x01\x00v\x00', 'latin1'),
    Buffer.from(`${text}\n`),
    data,
  ]);
}

function npz(...files: readonly (Partial<ArchivedFile> & { name: string })[]): string {
  const path = temporaryPath('arrays.npz');
  const whole = files.map((file) => ({ data: npy(bytes, '|u1', 1), ...file }));
  writeFileSync(path, writeArchive(whole));
  return path;
}

/** Bytes that were read, by descriptor. */
function readBytes(): number[] {
  const byDescriptor = new Map<number, number>();
  for (const [{ fd }, target] of vi.mocked(fileCalls.readOnce).mock.calls) {
    byDescriptor.set(fd, (byDescriptor.get(fd) ?? 0) + target.byteLength);
  }
  return [...byDescriptor.values()];
}

afterEach(() => vi.clearAllMocks());

test('the directory of an archive is read once', async () => {
  await convert(npz({ name: 'a.npy' }), temporaryPath('a.safetensors'), fast);
  expect(readArchives.readArchive).toHaveBeenCalledTimes(1);
});

test('every byte of the source and of the new file is read once', async () => {
  await convert(npz({ name: 'a.npy' }), temporaryPath('a.safetensors'), fast);
  const [most = 0, next = 0] = readBytes().sort((a, b) => b - a);
  for (const read of [most, next]) {
    expect(read).toBeGreaterThanOrEqual(bytes.length);
    expect(read).toBeLessThan(bytes.length + 400_000);
  }
});

test.each(['model.safetensors', 'model'])(
  'without verify the kernel copies to %s',
  async (name) => {
    const target = temporaryPath(name);
    await convert(npz({ name: 'a.npy' }), target, { ...fast, verify: false });
    const read = readBytes().reduce((sum, length) => sum + length, 0);
    expect(read).toBeLessThan(400_000);
    using written = safeOpen(target);
    expect(Buffer.compare(written.getTensor('a').bytes, bytes)).toBe(0);
  },
);

test('what is written into a folder is read again, too', async () => {
  await convert(npz({ name: 'a.npy' }), temporaryPath('model'), fast);
  expect(readBytes().filter((read) => read >= bytes.length)).toHaveLength(2);
});

test('an abort ends the comparison of checksums, too', async () => {
  const source = npz({ name: 'a.npy', data: npy(bytes, '>u2', 2) });
  const options = { ...fast, signal: AbortSignal.abort(new Error('enough')) };
  await expect(convert(source, temporaryPath('a.safetensors'), options)).rejects.toThrow('enough');
  const read = readBytes().reduce((sum, length) => sum + length, 0);
  expect(read).toBeLessThan(400_000);
});

test('every element is cast once', async () => {
  const data = npy(bytes, '<f4', 4);
  const target = temporaryPath('a.safetensors');
  await convert(npz({ name: 'a.npy', data }), target, { ...fast, dtype: 'F16' });
  const lengths = vi.mocked(kernels.castOnPool).mock.calls.map(([, , { length }]) => length);
  expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(bytes.length);
  expect(safeOpen(target).info('a').dtype).toBe('F16');
});

test('what is deflated is not inflated as a whole', async () => {
  const target = temporaryPath('a.safetensors');
  const source = npz({ name: 'a.npy', isDeflated: true });
  for (const verify of [true, false]) {
    await convert(source, target, { ...fast, verify });
    expect(Buffer.compare(safeOpen(target).getTensor('a').bytes, bytes)).toBe(0);
  }
  expect(readEntries.readEntry).not.toHaveBeenCalled();
});

test.each([
  ['stored', { isDeflated: false }],
  ['deflated', { isDeflated: true }],
  ['big-endian', { data: npy(bytes, '>u2', 2) }],
  ['empty', { data: npy(Buffer.alloc(0), '|u1', 1) }],
])('a wrong checksum of an array that is %s is found, and the old file stays', async (_, how) => {
  const target = temporaryPath('a.safetensors');
  writeFileSync(target, 'old');
  const source = npz({ name: 'a.npy', ...how, crc32: 1 }, { name: 'b.npy' });
  await expect(convert(source, target, fast)).rejects.toMatchObject({
    code: 'SAFETENSORS_CHECKSUM_MISMATCH',
  });
  expect(readFileSync(target, 'utf8')).toBe('old');
  // Tensors that are left out are not read.
  await convert(source, target, { ...fast, names: ['b'] });
  expect(safeOpen(target).keys()).toEqual(['b']);
});

test('an archive without checksums is taken as it is; one of which an entry has one is not', async () => {
  const target = temporaryPath('a.safetensors');
  const none = npz(
    { name: 'a.npy', crc32: 0 },
    { name: 'b.npy', crc32: 0, isDeflated: true },
    { name: 'c.npy', crc32: 0, data: npy(bytes, '>u2', 2) },
  );
  await convert(none, target, fast);
  using written = safeOpen(target);
  expect(Buffer.compare(written.getTensor('a').bytes, bytes)).toBe(0);
  expect(Buffer.compare(written.getTensor('b').bytes, bytes)).toBe(0);
  expect(Buffer.compare(written.getTensor('c').bytes, Buffer.from(bytes).swap16())).toBe(0);

  const some = npz({ name: 'a.npy', crc32: 0 }, { name: 'b.npy' });
  await expect(convert(some, target, fast)).rejects.toMatchObject({
    code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    message: expect.stringContaining('a.npy'),
  });
});
