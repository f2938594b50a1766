/** Digests in streams of files that are long enough for threads to hash them before they are streamed. */
import { createHash } from 'node:crypto';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse, safeOpen, saveFile, serializeStream } from '../../support/api.js';

const MIB = 2 ** 20;
const KEY = 'safetensors-mmap.sha256';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const plain = join(folder, 'plain.safetensors');
const digested = join(folder, 'digested.safetensors');
afterAll(() => rmSync(folder, { recursive: true }));

const LENGTHS = [0, 1, 9 * MIB + 3, 0, 4 * MIB, ...Array(300).fill(333), 30 * MIB - 1, 25 * MIB];

beforeAll(async () => {
  const tensors = LENGTHS.map((byteLength: number, i) => {
    const data = new Uint8Array(byteLength);
    for (let at = 0; at < byteLength; at += 1019) data[at] = i + at / 1019;
    return [`t${i}`, { dtype: 'U8', shape: [byteLength], data }] as const;
  });
  await saveFile(plain, tensors, { durable: false });
  await saveFile(digested, tensors, { durable: false, digests: true });
});

/** Changes a byte of a file, by default the last one, until the test ends. */
function damage(path: string, at = statSync(path).size - 1): void {
  const byte = readFileSync(path)[at] as number;
  const write = (value: number): void => {
    const fd = openSync(path, 'r+');
    writeSync(fd, Uint8Array.of(value), 0, 1, at);
    closeSync(fd);
  };
  write(byte ^ 1);
  onTestFinished(() => write(byte));
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

describe('a stream with digests', () => {
  test.each([
    ['that has none', plain],
    ['that has them', digested],
  ])('of a file %s has those of its tensors', async (_, path) => {
    using file = safeOpen(path);
    const bytes = await bytesOf(serializeStream(file, { digests: true }));
    expect(bytes.equals(readFileSync(digested))).toBe(true);
    const copy = parse(bytes);
    const expected = copy
      .offsetKeys()
      .map((name) => createHash('sha256').update(copy.getTensor(name).bytes).digest('hex'));
    expect(copy.metadata?.get(KEY)).toBe(expected.join(''));
  });

  test('of a file whose bytes differ from its digests never ends', async () => {
    damage(digested);
    using file = safeOpen(digested);
    let length = 0;
    const read = async (): Promise<void> => {
      for await (const piece of serializeStream(file, { digests: true })) length += piece.length;
    };
    await expect(read()).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
      path: digested,
      tensor: 't99',
    });
    expect(length).toBeLessThan(file.byteLength());
  });

  test('of a file that changes between its two passes never ends', async () => {
    using file = safeOpen(plain);
    const read = async (): Promise<void> => {
      let isFirst = true;
      for await (const _ of serializeStream(file, { digests: true })) {
        if (isFirst) damage(plain);
        isFirst = false;
      }
    };
    await expect(read()).rejects.toMatchObject({ code: expect.stringMatching(/CHANGED|MISMATCH/) });
  });

  test.each(['t306', 't99'])('of a file whose %s changes unseen names it', async (tensor) => {
    utimesSync(plain, 1, 1);
    using file = safeOpen(plain);
    const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
    const end = dataStart + file.info(tensor).dataOffsets[1];
    const pieces = serializeStream(file, { digests: true })[Symbol.asyncIterator]();
    let { length } = (await pieces.next()).value as Uint8Array;
    damage(plain, end - 1);
    utimesSync(plain, 1, 1);
    const rest = async (): Promise<void> => {
      for await (const piece of pieces) length += piece.length;
    };
    await expect(rest()).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH', tensor });
    expect(length).toBeLessThan(file.byteLength());
  });

  test('ends with the signal, and when it is left, between two pieces', async () => {
    using file = safeOpen(plain);
    const controller = new AbortController();
    const { signal } = controller;
    const pieces = serializeStream(file, { digests: true, signal })[Symbol.asyncIterator]();
    await pieces.next();
    controller.abort(new Error('enough'));
    await expect(pieces.next()).rejects.toThrow('enough');
    expect(await pieces.next()).toEqual({ done: true, value: undefined });
    const left = serializeStream(file, { digests: true })[Symbol.asyncIterator]();
    await left.next();
    expect(await left.return()).toEqual({ done: true, value: undefined });
  });

  test('of a file that is another one at its start fails before the first piece', async () => {
    const path = join(folder, 'copy.safetensors');
    writeFileSync(path, readFileSync(plain));
    using file = safeOpen(path);
    const stream = serializeStream(file, { digests: true });
    writeFileSync(path, readFileSync(digested));
    utimesSync(path, 1, 1);
    await expect(bytesOf(stream)).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
  });

  test('ends with the signal, before the first piece', async () => {
    using file = safeOpen(plain);
    const controller = new AbortController();
    const { signal } = controller;
    const pieces = serializeStream(file, { digests: true, signal })[Symbol.asyncIterator]();
    const first = pieces.next();
    controller.abort(new Error('enough'));
    await expect(first).rejects.toThrow('enough');
  });
});
