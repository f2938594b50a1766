import { createHash, randomBytes } from 'node:crypto';
import { closeSync, openSync, truncateSync, writeFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { combineCrc32 } from '../../../src/platform/io/combined-crc32.js';
import { type HashTask, HashTasks } from '../../../src/platform/io/hash-tasks.js';
import { temporaryPath } from '../../support/make-file.js';

const PIECE = 2 ** 20;
const opened: number[] = [];
const threads: HashTasks[] = [];
afterEach(async () => {
  await Promise.all(threads.splice(0).map((thread) => thread.end()));
  opened.splice(0).forEach(closeSync);
});

function fileOf(bytes: Uint8Array) {
  const path = temporaryPath('bytes');
  writeFileSync(path, bytes);
  const fd = openSync(path, 'r');
  opened.push(fd);
  return { fd, path };
}

function started(tasks: readonly HashTask[], memory?: Uint8Array<SharedArrayBuffer>): HashTasks {
  const thread = new HashTasks(tasks, memory);
  threads.push(thread);
  return thread;
}

/** Ranges around blocks and pieces, with gaps and empty ones; the last one ends with the file. */
function rangesOf(byteLength: number): { begin: number; end: number }[] {
  const ends = [0, 0, 5, 2 ** 18, 2 ** 18 + 1, PIECE, PIECE, PIECE + 1, 2 * PIECE - 1, byteLength];
  return ends.slice(1).map((end, i) => ({ begin: ends[i] as number, end }));
}

describe('tasks of a thread', () => {
  const bytes = randomBytes(3 * PIECE + 17);
  const whole = { begin: 0, end: bytes.length };
  const ranges = rangesOf(bytes.length);
  const tasks: readonly HashTask[] = [
    { algorithm: 'sha256', ranges: [{ begin: 3, end: 2 * PIECE + 1 }] },
    { algorithm: 'sha256', ranges },
    { algorithm: 'crc32', ranges: [whole] },
    { algorithm: 'crc32', ranges: ranges.filter((_, i) => i % 2 === 1) },
    { algorithm: 'sha256', ranges: [] },
  ];
  const expected = tasks.map(({ algorithm, ranges: own }) =>
    own.map(({ begin, end }) => {
      const part = bytes.subarray(begin, end);
      if (algorithm === 'sha256') return createHash('sha256').update(part).digest('hex');
      return crc32(part).toString(16).padStart(8, '0');
    }),
  );

  test.each([PIECE, 4096, 10 * PIECE])('hash a file in pieces of %i bytes', async (length) => {
    const file = fileOf(bytes);
    const thread = started(tasks);
    const added: Promise<void>[] = [];
    for (let at = 0; at < bytes.length; at += length) {
      added.push(thread.addFile(file, at, Math.min(at + length, bytes.length)));
    }
    await Promise.all(added);
    expect(thread.digests()).toEqual(expected);
  });

  test('hash pieces of a file and of memory by turns', async () => {
    const file = fileOf(bytes);
    const memory = new Uint8Array(new SharedArrayBuffer(PIECE + 100));
    const thread = started(tasks, memory);
    for (let at = 0; at < bytes.length; at += PIECE) {
      const end = Math.min(at + PIECE, bytes.length);
      if (at % (2 * PIECE) === 0) {
        await thread.addFile(file, at, end);
      } else {
        memory.set(bytes.subarray(at, end), 100);
        await thread.addMemory(100, at, end);
      }
    }
    expect(thread.digests()).toEqual(expected);
  });

  test('reject a file that is truncated', async () => {
    const file = fileOf(bytes);
    const thread = started(tasks);
    await thread.addFile(file, 0, PIECE);
    truncateSync(file.path, PIECE + 10);
    await expect(thread.addFile(file, PIECE, 2 * PIECE)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: file.path,
      message: expect.stringContaining(`found ${PIECE + 10}`),
    });
  });

  test('reject with the error of the system, which names the file', async () => {
    const { path } = fileOf(bytes);
    const fd = openSync(path, 'a');
    opened.push(fd);
    await expect(started(tasks).addFile({ fd, path }, 0, PIECE)).rejects.toMatchObject({
      code: 'EBADF',
      syscall: 'read',
      path,
    });
  });

  test('reject when the thread ends', async () => {
    const thread = started(tasks);
    const added = thread.addFile(fileOf(bytes), 0, bytes.length);
    const rejected = expect(added).rejects.toThrow('has ended');
    await thread.end();
    await rejected;
  });
});

test.each([0, 1, 2, 255, 256, 65_537, 2 ** 20])('a CRC-32 followed by %i bytes', (byteLength) => {
  for (const first of [randomBytes(0), randomBytes(1), randomBytes(4099)]) {
    const second = randomBytes(byteLength);
    const combined = combineCrc32(crc32(first), crc32(second), byteLength);
    expect(combined).toBe(crc32(Buffer.concat([first, second])));
  }
});

test('a CRC-32 followed by more than 4 GiB of zeros', () => {
  // 2³² zeros, one half after the other.
  let [zeros, byteLength] = [crc32(new Uint8Array(2 ** 20)), 2 ** 20];
  for (; byteLength < 2 ** 33; byteLength *= 2) zeros = combineCrc32(zeros, zeros, byteLength);
  const first = crc32(Uint8Array.of(1, 2, 3));
  const one = crc32(Uint8Array.of(0));
  const zerosThenOne = combineCrc32(combineCrc32(first, zeros, byteLength), one, 1);
  expect(zerosThenOne).toBe(combineCrc32(combineCrc32(first, one, 1), zeros, byteLength));
});
