import { closeSync, openSync, truncateSync, writeSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { safeOpen } from '../support/api.js';
import { temporaryPath, writeTemporary } from '../support/make-file.js';
import { measureInChild, runChild } from '../support/run-child.js';

const small = [{ name: 't', dtype: 'U8', shape: [5000] }] as const;
/** 8 MiB: far more than one page beyond any cut. */
const large = [{ name: 't', dtype: 'U8', shape: [2 ** 23] }] as const;

test('a detaching close with buffers that are marked as untransferable', async () => {
  const close = (storage: string): Promise<readonly number[]> =>
    measureInChild('file/children/close-marked.mjs', [writeTemporary(small), storage]);
  expect(await close('mmap')).toEqual([0, 0, 0]);
  // Some versions of Node leave them their memory, which is a copy.
  expect(await close('read')).toHaveLength(3);
});

describe('ending with live views', () => {
  test.each([
    ['return', 0],
    ['closed', 0],
    ['exit', 7],
    ['throw', 1],
    ['worker-terminate', 0],
    ['worker-alive', 0],
  ])('%s', async (ending, expected) => {
    const { code, signal } = await runChild('file/children/end-with-views.mjs', [
      writeTemporary(small),
      ending,
    ]);
    expect({ code, signal }).toEqual({ code: expected, signal: null });
  });
});

describe.runIf(process.platform === 'linux')('a file cut short under a view', () => {
  test.each(['main', 'worker', 'after-worker'])('%s: zeros, then errors', async (where) => {
    const path = writeTemporary(large);
    const seen = await measureInChild('file/children/truncate-under-views.mjs', [
      path,
      where,
      'guarded',
    ]);
    expect(seen).toEqual({
      before: [2, 0],
      kept: 2,
      sum: 0,
      written: 5,
      refused: ['SAFETENSORS_FILE_CHANGED', 'SAFETENSORS_FILE_CHANGED'],
      ok: false,
    });
  });

  test('without the guard the process dies by SIGBUS', async () => {
    const path = writeTemporary(large);
    const { signal } = await runChild('file/children/truncate-under-views.mjs', [
      path,
      'main',
      'unguarded',
    ]);
    expect(signal).toBe('SIGBUS');
  });

  test('system calls on it fail with EFAULT, until a page that is gone was read', async () => {
    const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [2 ** 16] }]);
    const file = safeOpen(path);
    const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
    const { bytes } = file.getTensor('t');
    truncateSync(path, 4096);
    const there = 4096 - dataStart;
    const fd = openSync(temporaryPath('copy'), 'w');
    try {
      expect(writeSync(fd, bytes)).toBe(there);
      const write = () => writeSync(fd, bytes, there);
      expect(write).toThrow(expect.objectContaining({ code: 'EFAULT' }));
      expect(bytes.at(-1)).toBe(0);
      expect(write()).toBe(2 ** 16 - there);
    } finally {
      closeSync(fd);
      file.close();
    }
  });
});
