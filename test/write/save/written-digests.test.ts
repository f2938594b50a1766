/** Digests of files that are long enough for threads to hash them while they are written. */
import { createHash } from 'node:crypto';
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
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { WrittenDigests } from '../../../src/write/save/written-digests.js';
import { convert, type NamedTensors, safeOpen, saveFile, verify } from '../../support/api.js';

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
const KEY = 'safetensors-mmap.sha256';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const source = join(folder, 'source.safetensors');
const target = join(folder, 'target.safetensors');
afterAll(() => rmSync(folder, { recursive: true }));

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

function filled(byteLength: number, first: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(byteLength);
  for (let at = 0; at < byteLength; at += 1009) bytes[at] = first + at / 1009;
  return bytes;
}

const MEMORY = filled(30 * MIB + 1, 1);

function* pieces(): Generator<Uint8Array> {
  for (let i = 0; i < 20; i++) yield new Uint8Array(MIB).fill(i);
}

const TENSORS: NamedTensors = {
  a: { dtype: 'U8', shape: [MEMORY.length], data: MEMORY },
  b: { dtype: 'U8', shape: [20 * MIB], data: pieces },
  ...Object.fromEntries(
    Array.from({ length: 500 }, (_, i) => [
      `c${i}`,
      { dtype: 'U8' as const, shape: [i % 7], data: new Uint8Array(i % 7).fill(i) },
    ]),
  ),
  d: { dtype: 'F32', shape: [5 * MIB], data: new Float32Array(5 * MIB).fill(3) },
};

/** Opens a file, whose digests must be those of its tensors. */
function requireDigests(path: string): void {
  using file = safeOpen(path);
  const expected = file.offsetKeys().map((name) => sha256(file.getTensor(name).bytes));
  expect(file.metadata?.get(KEY)).toBe(expected.join(''));
}

function writeByte(path: string, position: number, byte: number): void {
  const fd = openSync(path, 'r+');
  writeSync(fd, Uint8Array.of(byte), 0, 1, position);
  closeSync(fd);
}

beforeAll(async () => {
  await saveFile(source, TENSORS, { digests: true, durable: false });
});

describe('a long file with digests', () => {
  test('has those of tensors in memory and of streams', async () => {
    requireDigests(source);
    expect(await verify(source)).toMatchObject({ ok: true, checks: ['headers', 'digests'] });
  });

  test('has those of tensors of a file, of casts, and of files that are read back', async () => {
    using file = safeOpen(source);
    await saveFile(target, file.getTensors(), { digests: true, durable: false });
    requireDigests(target);
    expect(readFileSync(target).equals(readFileSync(source))).toBe(true);
    await convert(source, target, { digests: true, durable: false, overwrite: true });
    requireDigests(target);
    const dtype = { dtype: 'F16' } as const;
    await convert(source, target, { ...dtype, digests: true, durable: false, overwrite: true });
    requireDigests(target);
  });

  test('is not written from bytes that differ from declared digests', async () => {
    rmSync(target, { force: true });
    using file = safeOpen(source);
    const [header] = await file.headers();
    const entry = header?.tensors.find(({ name }) => name === 'a');
    const at = (header?.dataStart ?? 0) + (entry?.dataOffsets[1] ?? 0) - 1;
    const byte = readFileSync(source)[at] as number;
    writeByte(source, at, byte ^ 1);
    try {
      using changed = safeOpen(source);
      for (const save of [
        () => saveFile(target, changed.getTensors(), { digests: true, durable: false }),
        () => convert(source, target, { digests: true, durable: false }),
      ]) {
        await expect(save()).rejects.toMatchObject({
          code: 'SAFETENSORS_CHECKSUM_MISMATCH',
          tensor: 'a',
          path: source,
        });
      }
      expect(existsSync(target)).toBe(false);
      expect(readdirSync(folder)).toEqual(['source.safetensors']);
    } finally {
      writeByte(source, at, byte);
    }
  });

  test('is written from mapped memory that the caller has changed', async () => {
    using file = safeOpen(source);
    const tensors = file.getTensors();
    const changed = tensors.get('a');
    if (changed === undefined) throw new Error('there is no tensor a');
    changed.bytes[7] = (changed.bytes[7] as number) ^ 1;
    await saveFile(target, tensors, { digests: true, durable: false });
    requireDigests(target);
    using saved = safeOpen(target);
    expect(saved.getTensor('a').bytes[7]).toBe(changed.bytes[7]);
  });

  test('leaves the old file after an abort, and after the error of a stream', async () => {
    writeFileSync(target, 'old');
    const controller = new AbortController();
    const failing = function* (): Generator<Uint8Array> {
      yield new Uint8Array(MIB);
      throw new Error('no more');
    };
    const aborting = function* (): Generator<Uint8Array> {
      yield new Uint8Array(MIB);
      controller.abort(new Error('enough'));
      yield* pieces();
    };
    const { signal } = controller;
    for (const [data, message] of [
      [failing, 'no more'],
      [aborting, 'enough'],
    ] as const) {
      const tensors: NamedTensors = { ...TENSORS, e: { dtype: 'U8', shape: [21 * MIB], data } };
      const saving = saveFile(target, tensors, { digests: true, durable: false, signal });
      await expect(saving).rejects.toThrow(message);
      expect(readFileSync(target, 'utf8')).toBe('old');
    }
    expect(readdirSync(folder)).toEqual(['source.safetensors', 'target.safetensors']);
  });
});

describe('digests of written pieces', () => {
  const path = join(folder, 'pieces.bin');
  const bytes = filled(9 * MIB + 5, 9);
  const ends = [10, 10, 11, 4 * MIB, 4 * MIB + 3, 8 * MIB, 8 * MIB, bytes.length];
  const ranges = ends.slice(1).map((end, i) => ({ begin: ends[i] as number, end }));

  test('wait for everything before them, in any order', async () => {
    writeFileSync(path, new Uint8Array(bytes.length));
    const fd = openSync(path, 'r+');
    const digests = new WrittenDigests({ fd, path }, ranges);
    try {
      const cuts = [0, 0, 5, MIB, 3 * MIB + 1, 7 * MIB, bytes.length];
      const pieces = cuts.slice(1).map((end, i) => [cuts[i] as number, end] as const);
      for (const at of [5, 2, 0, 4, 3, 1]) {
        const [begin, end] = pieces[at] as readonly [number, number];
        writeSync(fd, bytes, begin, end - begin, begin);
        digests.add(begin, end - begin);
      }
      const expected = ranges.map(({ begin, end }) => sha256(bytes.subarray(begin, end)));
      expect(await digests.digests()).toEqual(expected);
    } finally {
      await digests.end();
      closeSync(fd);
    }
  });

  test('reject when the file is shorter than what was written', async () => {
    writeFileSync(path, bytes);
    truncateSync(path, 2 * MIB);
    const fd = openSync(path, 'r+');
    const digests = new WrittenDigests({ fd, path }, ranges);
    try {
      digests.add(0, bytes.length);
      await expect(digests.digests()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
    } finally {
      await digests.end();
      closeSync(fd);
    }
  });
});
