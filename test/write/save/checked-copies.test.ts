/** Conversions of files that are long enough for threads: every byte is read back, every checksum is compared. */
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { alwaysOpen } from '../../../src/platform/io/acquirable-file.js';
import { CopyingThread } from '../../../src/platform/io/copying-thread.js';
import { Transfer } from '../../../src/work/transfer.js';
import { CheckedCopies, type CopiedTensor } from '../../../src/write/save/checked-copies.js';
import { convert, safeOpen, verify } from '../../support/api.js';
import { writeArchive } from '../convert/archives.js';

// Threads are worth it for files that are too long for tests.
vi.mock('../../../src/write/save/long-files.js', () => {
  const least = 64 * 2 ** 20;
  return {
    HASHED_BYTE_LENGTH: least,
    VERIFIED_BYTE_LENGTH: least,
    STREAMED_BYTE_LENGTH: least,
  };
});

const MIB = 2 ** 20;

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const source = join(folder, 'model.pt');
const target = join(folder, 'model.safetensors');
afterAll(() => rmSync(folder, { recursive: true }));

/** Storages around the pieces of 4 MiB, and many short ones. */
const STORAGES = [
  ...[40 * MIB + 1, 4 * MIB, 3, 8 * MIB - 1, 14 * MIB],
  ...Array.from({ length: 600 }, (_, i) => 1 + (i % 9) * 100),
].map((byteLength, storage) => {
  const bytes = Buffer.alloc(byteLength);
  for (let at = 0; at < byteLength; at += 1013) bytes[at] = storage + at / 1013;
  return bytes;
});
const nameOf = (storage: number): string => `t${String(storage).padStart(3, '0')}`;

/** A pickle of tensors of bytes, one of each storage. */
function pickleOf(storages: readonly Uint8Array[]): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value);
    return Buffer.concat([Buffer.from('X'), uint32(bytes.length), bytes]);
  };
  const integer = (value: number): Buffer => Buffer.concat([Buffer.from('J'), uint32(value)]);
  const parts = storages.flatMap(({ length }, i) => [
    ...[text(nameOf(i)), Buffer.from('ctorch._utils\n_rebuild_tensor_v2\n((')],
    ...[text('storage'), Buffer.from('ctorch\nByteStorage\n'), text(String(i)), text('cpu')],
    ...[integer(length), Buffer.from('tQ'), integer(0), Buffer.from('('), integer(length)],
    ...[
      Buffer.from('t('),
      integer(1),
      Buffer.from('t\x89ccollections\nOrderedDict\n)RtR', 'latin1'),
    ],
  ]);
  return Buffer.concat([Buffer.from('\x80\x02}(', 'latin1'), ...parts, Buffer.from('u.')]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Changes a byte of the source until the test ends. */
function changeByte(position: number): void {
  const byte = archive[position] as number;
  const write = (value: number): void => {
    const fd = openSync(source, 'r+');
    writeSync(fd, Uint8Array.of(value), 0, 1, position);
    closeSync(fd);
  };
  write(byte ^ 1);
  onTestFinished(() => write(byte));
}

let archive: Buffer;
beforeAll(() => {
  archive = writeArchive([
    { name: 'm/data.pkl', data: pickleOf(STORAGES) },
    ...STORAGES.map((data, i) => ({ name: `m/data/${i}`, data })),
    { name: 'm/version', data: Buffer.from('3\n') },
  ]);
  writeFileSync(source, archive);
});

const OPTIONS = { durable: false, overwrite: true } as const;

describe('a long conversion', () => {
  test.each([false, true])('has the bytes of its source, with digests: %s', async (digests) => {
    const onProgress = vi.fn();
    await convert(source, target, { ...OPTIONS, digests, onProgress });
    using file = safeOpen(target);
    expect(file.size).toBe(STORAGES.length);
    for (const [i, bytes] of STORAGES.entries()) {
      expect(bytes.equals(file.getTensor(nameOf(i)).bytes)).toBe(true);
    }
    const totalBytes = file.byteLength();
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: totalBytes, totalBytes });
    if (digests) expect(await verify(target)).toMatchObject({ ok: true });
  });

  test.each([
    ['the first byte of a long storage', 0, 0],
    ['the last byte of a long storage', 0, 40 * MIB],
    ['a byte in the middle of a piece', 4, 9 * MIB + 77],
    ['a short storage', 333, 0],
  ])('fails when %s is damaged', async (_, storage, byte) => {
    rmSync(target, { force: true });
    const data = STORAGES[storage] as Buffer;
    const name = Buffer.from(`m/data/${storage}`);
    const at = archive.indexOf(Buffer.concat([name, data.subarray(0, 16)])) + name.length;
    changeByte(at + byte);
    await expect(convert(source, target, OPTIONS)).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
      message: expect.stringContaining(`"m/data/${storage}"`),
    });
    expect(existsSync(target)).toBe(false);
    await convert(source, target, { ...OPTIONS, verify: false });
  });

  test('leaves the old file after an abort', async () => {
    writeFileSync(target, 'old');
    const controller = new AbortController();
    const { signal } = controller;
    const converting = convert(source, target, { ...OPTIONS, signal });
    setTimeout(() => controller.abort(new Error('enough')), 20);
    await expect(converting).rejects.toThrow('enough');
    expect(readFileSync(target, 'utf8')).toBe('old');
    expect(readdirSync(folder).toSorted()).toEqual(['model.pt', 'model.safetensors']);
  });
});

describe('checked copies', () => {
  const bytes = Buffer.concat(STORAGES).subarray(0, 10 * MIB);

  /** Opens the source, and a target with the flags. */
  function files(flags: string) {
    const [from, to] = [join(folder, 'from.bin'), join(folder, 'to.bin')];
    writeFileSync(from, bytes);
    writeFileSync(to, '');
    const [fromFd, toFd] = [openSync(from, 'r'), openSync(to, flags)];
    onTestFinished(() => {
      for (const fd of [fromFd, toFd]) closeSync(fd);
      for (const path of [from, to]) rmSync(path, { force: true });
    });
    return { from: { fd: fromFd, path: from }, to: { fd: toFd, path: to } };
  }

  function tensorsOf(from: { fd: number; path: string }): CopiedTensor[] {
    const ends = [0, 1, 5 * MIB, 5 * MIB + 2, bytes.length];
    return ends.slice(1).map((end, i) => {
      const begin = ends[i] as number;
      const [position, byteLength] = [100 + begin, end - begin];
      const require = (found: number): void =>
        expect(found).toBe(crc32(bytes.subarray(begin, end)));
      const checksum = { fill: () => {}, require: vi.fn(require) };
      const at = { position, byteLength, sourcePosition: begin };
      return { ...at, tensor: `${i}`, source: alwaysOpen(from), checksum };
    });
  }

  async function copied({ from, to }: ReturnType<typeof files>): Promise<CopiedTensor[]> {
    const copies = new CheckedCopies(to);
    onTestFinished(() => copies.end());
    const tensors = tensorsOf(from);
    await copies.write(tensors, new Transfer(bytes.length, {}).part, () => {});
    return tensors;
  }

  test('are right, and each checksum is compared once', async () => {
    const opened = files('r+');
    for (const { checksum } of await copied(opened)) {
      expect(checksum?.require).toHaveBeenCalledOnce();
    }
    expect(readFileSync(opened.to.path).subarray(100).equals(bytes)).toBe(true);
  });

  test('reject a byte that is read back as another one', async () => {
    // Everything that is written goes to the end of this file.
    const opened = files('a+');
    writeFileSync(opened.to.path, Buffer.alloc(MIB));
    await expect(copied(opened)).rejects.toMatchObject({
      code: 'SAFETENSORS_VERIFICATION_FAILED',
      path: opened.to.path,
      tensor: expect.stringMatching(/^[0-3]$/),
    });
  });

  test('reject a source that is truncated, and a target that cannot be written', async () => {
    const truncated = files('r+');
    truncateSync(truncated.from.path, 7 * MIB);
    await expect(copied(truncated)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: truncated.from.path,
    });
    const readonly = files('r');
    await expect(copied(readonly)).rejects.toMatchObject({
      code: 'EBADF',
      syscall: 'write',
      path: readonly.to.path,
    });
  });

  test('name the first byte that differs', async () => {
    const { from, to } = files('a+');
    writeFileSync(to.path, bytes.subarray(0, 500));
    const thread = new CopyingThread();
    onTestFinished(() => thread.end());
    const copies = [
      { file: from, position: 0, byteLength: 500, targetPosition: 0 },
      { file: from, position: 1, byteLength: 4000, targetPosition: 0 },
    ];
    const { crc32s, difference } = await thread.copy(to, copies);
    expect(crc32s).toEqual([crc32(bytes.subarray(0, 500))]);
    const byte = bytes.subarray(1, 4001).findIndex((value, i) => value !== bytes[i]);
    expect(difference).toEqual({ copy: 1, byte });
  });
});
