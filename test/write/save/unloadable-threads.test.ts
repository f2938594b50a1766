/** Long files whose code for threads cannot be read, as without a free descriptor. */
import { createHash } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { convert, safeOpen, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const load = vi.hoisted(() => vi.fn(() => Promise.reject(new Error('EMFILE'))));

vi.mock('../../../src/write/save/writing-threads.js', load);

// Threads are worth it for files that are too long for tests.
vi.mock('../../../src/write/save/long-files.js', () => {
  const least = 64 * 2 ** 20;
  return {
    HASHED_BYTE_LENGTH: least,
    VERIFIED_BYTE_LENGTH: least,
    STREAMED_BYTE_LENGTH: least,
  };
});

test('the calling thread computes digests, copies and compares', async () => {
  const path = temporaryPath('long.safetensors');
  const data = new Uint8Array(64 * 2 ** 20 + 1).fill(7);
  await saveFile(path, { t: { dtype: 'U8', shape: [data.length], data } }, { digests: true });
  expect(load).toHaveBeenCalledOnce();
  const file = safeOpen(path);
  const sha256 = createHash('sha256').update(data).digest('hex');
  expect(JSON.stringify([...(file.metadata ?? [])])).toContain(sha256);
  file.close();
  const copy = temporaryPath('copy.safetensors');
  await convert(path, copy);
  using converted = safeOpen(copy);
  expect(Buffer.compare(converted.getTensor('t').bytes, data)).toBe(0);
});
