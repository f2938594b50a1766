/** The hash of a file that is being written, here and on a separate thread. */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginGrowingHash } from '../../../src/remote/download/growing-hash.js';
import { download } from '../../support/api.js';
import { type Entry, fileBytes, temporaryPath } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';
import { FileServer } from './file-server.js';

vi.mock('../../../src/remote/download/growing-hash.js', { spy: true });

const { signal } = new AbortController();
const LONG = 70 * 2 ** 20;

let file: { fd: number; path: string };
beforeEach(() => {
  const path = temporaryPath('growing');
  file = { path, fd: openSync(path, 'wx+') };
});
afterEach(() => closeSync(file.fd));

describe.each([
  ['short', 5_000_000],
  ['long', LONG],
])('of a %s file', (_, byteLength) => {
  const bytes = randomBytes(byteLength);
  const kept = 1_000_000;

  it.each([
    ['sha256', null, ''],
    ['sha256', 'f'.repeat(64), ''],
    ['sha1', 'f'.repeat(40), `blob ${byteLength}\0`],
  ])('is %s for %s', async (algorithm, expected, prefix) => {
    writeSync(file.fd, bytes, 0, kept, 0);
    const hash = beginGrowingHash(expected, byteLength, file);
    try {
      expect(await hash.addStart(kept, signal)).toBe(kept);
      for (let at = kept; at < byteLength; at += 4_000_000) {
        const piece = bytes.subarray(at, at + 4_000_000);
        writeSync(file.fd, piece, 0, piece.length, at);
        hash.add(piece);
      }
      const right = createHash(algorithm).update(prefix).update(bytes).digest('hex');
      expect(await hash.digest()).toBe(right);
    } finally {
      await hash.end();
    }
  });

  it('can be given up', async () => {
    const hash = beginGrowingHash(null, byteLength, file);
    writeSync(file.fd, bytes, 0, kept, 0);
    hash.add(bytes.subarray(0, kept));
    await hash.end();
  });
});

it.each(['', '--allow-worker'])(
  'of a long file needs no right to start threads: %j',
  async (flag) => {
    const permission = process.allowedNodeEnvironmentFlags.has('--permission')
      ? '--permission'
      : '--experimental-permission';
    const flags = [permission, '--allow-fs-read=*', '--allow-fs-write=*', flag].filter(Boolean);
    const script = 'remote/download/children/hash-long-file.mjs';
    const found = await measureInChild<string>(script, [file.path], { flags });
    expect(found).toBe(
      createHash('sha256')
        .update(new Uint8Array(2 ** 26))
        .digest('hex'),
    );
  },
);

it('of a long file fails with the read', async () => {
  const hash = beginGrowingHash(null, LONG, { ...file, fd: 1_000_000 });
  hash.add(new Uint8Array(1000));
  await expect(hash.digest()).rejects.toMatchObject({ code: 'EBADF' });
  await hash.end();
});

it.each([
  ['all of', {}],
  ['chosen tensors of', { dtype: 'F16' }],
] as const)('is that by which a download knows %s a long file again', async (_, options) => {
  vi.mocked(beginGrowingHash).mockClear();
  const server = await FileServer.start();
  try {
    const bias: Entry = { name: 'bias', dtype: 'F32', shape: [4] };
    const bytes = fileBytes([{ name: 'noise', dtype: 'F16', shape: [LONG / 2] }, bias]);
    server.files.set('noise.safetensors', { bytes, tag: '"noise"' });
    const path = temporaryPath('noise.safetensors');
    const url = server.url('noise.safetensors');
    const call = async () => await download(url, path, { durable: false, ...options });
    const { downloadedBytes } = await call();
    expect(downloadedBytes).toBeGreaterThan(LONG);
    expect(await call()).toMatchObject({
      downloadedBytes: 0,
      reusedBytes: downloadedBytes,
    });
    const lengths = vi.mocked(beginGrowingHash).mock.calls.map(([, length]) => length);
    expect(lengths).toEqual([downloadedBytes]);
  } finally {
    await server.close();
  }
});
