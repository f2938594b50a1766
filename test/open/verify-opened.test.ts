/** What `verify` and the command line do with a source that they open: its errors, and its end. */
import { expect, it, vi } from 'vitest';
import { verifyOpened } from '../../src/open/verify-source.js';
import { FormatError, safeOpen } from '../support/api.js';
import { TWO_SHARDS, writeCheckpoint } from '../support/make-checkpoint.js';

it('closes what it opened when there are problems', async () => {
  const wrong = safeOpen(writeCheckpoint({ ...TWO_SHARDS, metadata: { total_size: 1 } }));
  expect(await verifyOpened(() => wrong, {})).toMatchObject({
    ...{ ok: false, checks: ['headers', 'index'] },
    problems: [
      {
        ...{ file: 'model.safetensors.index.json', tensor: null },
        code: 'SAFETENSORS_INDEX_MISMATCH',
      },
    ],
  });
  expect(wrong.ok).toBe(false);
});

it('removes the path from the start of a message', async () => {
  const problemsOf = async (error: Error): Promise<unknown> =>
    (await verifyOpened(() => Promise.reject(error), {})).problems;
  const code = 'SAFETENSORS_INVALID_OFFSET';
  const message = 'expected x: found y: x';
  expect(await problemsOf(new FormatError(code, message))).toEqual([
    { file: '', tensor: null, code, message },
  ]);
  expect(await problemsOf(new FormatError(code, message, { path: 'x', tensor: 't' }))).toEqual([
    { file: 'x', tensor: 't', code, message: `tensor "t": ${message}` },
  ]);
});

it('rejects with errors that are not about the files', async () => {
  const own = new Error('mine');
  await expect(verifyOpened(() => Promise.reject(own), {})).rejects.toBe(own);
  const opener = vi.fn();
  const signal = AbortSignal.abort(own);
  await expect(verifyOpened(opener, { signal })).rejects.toBe(own);
  expect(opener).not.toHaveBeenCalled();
  await expect(verifyOpened(() => safeOpen('hf://org/not-in-the-cache'), {})).rejects.toMatchObject(
    { code: 'SAFETENSORS_NOT_IN_CACHE' },
  );
});
