/** Files opened by a descriptor or a FileHandle, which stays the caller's. */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { loadFile, safeOpen, safeOpenAsync } from '../support/api.js';
import { openBoth } from '../support/both-ways.js';
import {
  countedBytes,
  type Entry,
  fileBytes,
  temporaryPath,
  writeTemporary,
} from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';

const entries = [{ name: 'a', dtype: 'U8', shape: [5000] }] as const;

/** A file next to that of `writeTemporary`. */
function writeOther(tensors: readonly Entry[]): string {
  const path = temporaryPath('other.safetensors');
  writeFileSync(path, fileBytes(tensors));
  return path;
}

/** An open descriptor that is closed at the end of its block. */
function opened(path: string, flags = constants.O_RDONLY) {
  const fd = openSync(path, flags);
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}

test('a mapped file outlives descriptor and name', async () => {
  const path = writeTemporary(entries);
  const fd = openSync(path, 'r');
  const file = await openBoth(fd);
  expect(file.storage).toBe('mmap');
  expect(file.path).toBe(`descriptor ${fd}`);
  closeSync(fd);
  unlinkSync(path);
  expect(file.getTensor('a').bytes).toEqual(countedBytes(5000));
  expect(await (await file.readTensors()).get('a')?.bytes).toEqual(countedBytes(5000));
  file.close();
});

test.each(['mmap', 'read'] as const)(
  '%s leaves the descriptor open and where it was',
  (storage) => {
    const path = writeTemporary(entries);
    using source = opened(path);
    readSync(source.fd, new Uint8Array(7));
    const before = openDescriptors();
    const file = safeOpen(source.fd, { storage });
    unlinkSync(path);
    expect(file.getTensor('a').bytes).toEqual(countedBytes(5000));
    file.close({ detach: true });
    expect(openDescriptors()).toEqual(before);
    const next = new Uint8Array(1);
    readSync(source.fd, next);
    const again = new Uint8Array(1);
    readSync(source.fd, again, 0, 1, 7);
    expect(next).toEqual(again);
  },
);

test('a FileHandle, with all tensors at once and without stalling', async () => {
  await using handle = await open(writeTemporary(entries));
  expect(loadFile(handle, { storage: 'read' }).get('a')?.bytes).toEqual(countedBytes(5000));
  using file = await safeOpenAsync(handle);
  expect(file.getTensor('a').bytes).toEqual(countedBytes(5000));
  expect(fstatSync(handle.fd).isFile()).toBe(true);
});

describe('a file that is read', () => {
  test('needs the descriptor', () => {
    const fd = openSync(writeTemporary(entries), 'r');
    using file = safeOpen(fd, { storage: 'read' });
    const tensor = file.getTensor('a');
    closeSync(fd);
    expect(() => tensor.bytes).toThrow(
      expect.objectContaining({ code: 'EBADF', path: `descriptor ${fd}` }),
    );
  });

  test('notices that the number came to belong to a file of the same size', () => {
    const [path, other] = [writeTemporary(entries), writeOther(entries)];
    const fd = openSync(path, 'r');
    using file = safeOpen(fd, { storage: 'read' });
    closeSync(fd);
    const reused = openSync(other, 'r');
    expect(reused).toBe(fd);
    expect(() => file.getTensor('a').bytes).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_FILE_CHANGED',
        message: expect.stringContaining('leads to another file'),
      }),
    );
    closeSync(reused);
  });

  test('does not mind that another file takes its name', () => {
    const [path, other] = [writeTemporary(entries), writeOther([{ ...entries[0], shape: [3] }])];
    using source = opened(path);
    using file = safeOpen(source.fd, { storage: 'read' });
    renameSync(other, path);
    expect(file.getTensor('a').bytes).toEqual(countedBytes(5000));
  });
});

describe('what cannot be opened', () => {
  test.each([-1, 1.5, 2 ** 31, Number.NaN])('%d is no descriptor', async (fd) => {
    await expect(openBoth(fd)).rejects.toThrow(
      expect.objectContaining({
        code: 'ERR_OUT_OF_RANGE',
        message: expect.stringContaining('a descriptor from 0 to 2147483647'),
      }),
    );
  });

  test('a closed FileHandle', async () => {
    const handle = await open(writeTemporary(entries));
    await handle.close();
    await expect(openBoth(handle)).rejects.toThrow(
      'path must be an open FileHandle, but is a closed one',
    );
  });

  test('a closed descriptor', async () => {
    await expect(openBoth(1_000_000)).rejects.toThrow(
      expect.objectContaining({ code: 'EBADF', path: 'descriptor 1000000' }),
    );
  });

  test('a directory', async () => {
    const folder = temporaryPath('folder');
    mkdirSync(folder);
    using source = opened(folder);
    const before = openDescriptors();
    await expect(openBoth(source.fd)).rejects.toThrow(
      `descriptor ${source.fd}: expected a regular file, found a directory`,
    );
    expect(openDescriptors()).toEqual(before);
  });

  test('a descriptor for writing only', async () => {
    using source = opened(writeTemporary(entries), constants.O_WRONLY);
    await expect(openBoth(source.fd)).rejects.toThrow(
      expect.objectContaining({ code: 'EBADF', path: `descriptor ${source.fd}` }),
    );
    expect(fstatSync(source.fd).isFile()).toBe(true);
  });
});
