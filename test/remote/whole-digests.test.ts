/** Whole tensors are compared with the sums in the metadata of their file, slices are not. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { hashOnThread } from '../../src/file/verification/hash-thread.js';
import { nodeDigest } from '../../src/remote/node/digest.js';
import { webDigest } from '../../src/remote/whole-digests.js';
import * as browser from '../../src/runtime-browser.js';
import { openRemote } from '../support/api.js';
import { type Entry, fileBytes } from '../support/make-file.js';

const KEY = 'safetensors-mmap.sha256';
const CODE = 'SAFETENSORS_CHECKSUM_MISMATCH';
const MIB = 2 ** 20;

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const ENTRIES: readonly Entry[] = [
  { name: 'long', dtype: 'F32', shape: [MIB], bytes: new Uint8Array(4 * MIB).fill(3) },
  { name: 'empty', dtype: 'F32', shape: [0], bytes: new Uint8Array(0) },
  { name: 'short', dtype: 'U8', shape: [5], bytes: Uint8Array.of(1, 2, 3, 4, 5) },
];

const SUMS = ENTRIES.map(({ bytes }) => sha256(bytes as Uint8Array)).join('');

/** A file with these sums; `damaged` changes its last byte, which is of `short`. */
function blob(sums: string, isDamaged = false): Blob {
  const bytes = fileBytes(ENTRIES, { metadata: { [KEY]: sums } });
  if (isDamaged) bytes[bytes.length - 1] = 0;
  return new Blob([bytes as Uint8Array<ArrayBuffer>]);
}

describe.each([
  ['Node', openRemote],
  ['browsers', browser.open as typeof openRemote],
] as const)('openRemote of %s', (_, open) => {
  it('reads tensors whose bytes have their sums', async () => {
    using checkpoint = await open(blob(SUMS));
    expect((await checkpoint.readTensors()).size).toBe(3);
    expect((await checkpoint.getTensor('short')).bytes).toEqual(Uint8Array.of(1, 2, 3, 4, 5));
  });

  it('rejects with file, tensor, and both sums for other bytes', async () => {
    using checkpoint = await open(blob(SUMS, true));
    const found = sha256(Uint8Array.of(1, 2, 3, 4, 0));
    const error = {
      code: CODE,
      path: checkpoint.path,
      tensor: 'short',
      message: expect.stringContaining(`${KEY} declares ${SUMS.slice(-64)}, found ${found}`),
    };
    await expect(checkpoint.getTensor('short')).rejects.toMatchObject(error);
    await expect(checkpoint.readTensors()).rejects.toMatchObject(error);
    expect((await checkpoint.readTensors(['long', 'empty'])).size).toBe(2);
    expect(checkpoint.ok).toBe(true);
  });

  it('does not compare slices and parts', async () => {
    using checkpoint = await open(blob(SUMS, true));
    expect((await checkpoint.getSlice('short', [0, 5])).bytes[4]).toBe(0);
    expect((await checkpoint.getPartition('short', { rank: 0, worldSize: 1 })).bytes[4]).toBe(0);
  });

  it.each([
    ['an empty text', ''],
    ['too few', SUMS.slice(64)],
    ['too many', `${SUMS}${SUMS}`],
    ['a digit missing', SUMS.slice(1)],
    ['no digits', 'Z'.repeat(SUMS.length)],
    ['capitals', SUMS.toUpperCase()],
  ])('rejects whole tensors of a file with sums that cannot be: %s', async (_kind, sums) => {
    using checkpoint = await open(blob(sums));
    await expect(checkpoint.getTensor('short')).rejects.toMatchObject({
      code: CODE,
      tensor: 'short',
    });
    await expect(checkpoint.readTensors()).rejects.toThrow('expected 64 hexadecimal digits');
    expect((await checkpoint.getSlice('short', 0)).bytes).toEqual(Uint8Array.of(1));
  });

  it('compares nothing with verify: false, and takes booleans alone', async () => {
    for (const source of [blob(SUMS, true), blob('x')]) {
      using checkpoint = await open(source, { verify: false });
      expect((await checkpoint.readTensors()).size).toBe(3);
    }
    const wrong = { verify: 1 as unknown as boolean };
    await expect(open(blob(SUMS), wrong)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  });
});

describe('digests', () => {
  it.each([0, 1, MIB, MIB + 1, 65 * MIB + 3])('are SHA-256 of %i bytes', async (byteLength) => {
    const bytes = new Uint8Array(byteLength);
    for (let i = 0; i < byteLength; i += 4093) bytes[i] = i;
    const expected = sha256(bytes);
    expect(await nodeDigest(bytes)).toBe(expected);
    expect(await webDigest(bytes)).toBe(expected);
    expect(await hashOnThread(bytes)).toBe(expected);
  });
});
