/** Digests of a long file, whose tensors are hashed on two threads. */
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { safeOpen, saveFile, verify } from '../support/api.js';

const MIB = 2 ** 20;

/** Lengths around the pieces of 4 MiB that are read; the file is longer than 64 MiB. */
const LENGTHS: readonly number[] = [
  ...[0, 1, 4 * MIB, 17 * MIB + 3, 0, 9 * MIB - 1, 2 * MIB],
  ...[20 * MIB + 5, 0, 3, 4 * MIB + 1, 11 * MIB, 0],
];

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const path = join(folder, 'long.safetensors');

/** The file is written once: the tests put back what they change. */
beforeAll(async () => {
  const tensors = LENGTHS.map((byteLength, i) => {
    const data = new Uint8Array(byteLength);
    for (let at = 0; at < byteLength; at += 4096) data[at] = (i * 37 + at / 4096) & 0xff;
    return [`t${String(i).padStart(2, '0')}`, { dtype: 'U8', shape: [byteLength], data }] as const;
  });
  await saveFile(path, tensors, { digests: true, durable: false });
});

afterAll(() => rmSync(folder, { recursive: true }));

describe('a long file with digests', () => {
  test('has those of its tensors', async () => {
    using file = safeOpen(path);
    const sums = Array.from(file.keys(), (name) =>
      createHash('sha256').update(file.getTensor(name).bytes).digest('hex'),
    );
    expect(file.metadata?.get('safetensors-mmap.sha256')).toBe(sums.join(''));
    const onProgress = vi.fn();
    expect(await verify(path, { onProgress })).toMatchObject({ ok: true, problems: [] });
    const totalBytes = file.byteLength();
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: totalBytes, totalBytes });
    for (const [{ bytes }] of onProgress.mock.calls) expect(bytes).toBeLessThanOrEqual(totalBytes);
  });

  test.each(LENGTHS.flatMap((byteLength, i) => (byteLength === 0 ? [] : [[i, byteLength]])))(
    'names tensor %i when its last byte changes',
    async (i, byteLength) => {
      const name = `t${String(i).padStart(2, '0')}`;
      const at = await placeOf(name, byteLength - 1);
      const old = exchange(at, 0xa5);
      const { problems } = await verify(path);
      exchange(at, old);
      expect(problems).toMatchObject([{ tensor: name, code: 'SAFETENSORS_CHECKSUM_MISMATCH' }]);
    },
  );

  test('ends with the signal', async () => {
    const controller = new AbortController();
    const onProgress = (): void => controller.abort(new Error('enough'));
    const options = { onProgress, signal: controller.signal };
    await expect(verify(path, options)).rejects.toThrow('enough');
  });
});

/** The position in the file of a byte of a tensor. */
async function placeOf(name: string, byte: number): Promise<number> {
  using file = safeOpen(path);
  const [header] = await file.headers();
  const found = header?.tensors.find((entry) => entry.name === name);
  return (header?.dataStart ?? 0) + (found?.dataOffsets[0] ?? 0) + byte;
}

/** Writes a byte, or the next one where it is there already; returns the one that was there. */
function exchange(position: number, byte: number): number {
  const fd = openSync(path, 'r+');
  try {
    const [before = 0] = readByte(fd, position);
    writeSync(fd, Uint8Array.of(byte === before ? byte + 1 : byte), 0, 1, position);
    return before;
  } finally {
    closeSync(fd);
  }
}

function readByte(fd: number, position: number): Uint8Array {
  const byte = new Uint8Array(1);
  readSync(fd, byte, 0, 1, position);
  return byte;
}
