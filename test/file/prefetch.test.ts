import { closeSync, openSync, utimesSync, writeSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { parse, safeOpen, type TransferProgress } from '../support/api.js';
import { type Entry, fileBytes, writeTemporary } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';
import { dropFromPageCache } from '../support/page-cache.js';
import { findPython, isSkipped } from '../support/python.js';
import { measureInChild, runChild } from '../support/run-child.js';
import { large, MIB, medium, runOnOldKernel } from './prefetched-files.js';

const isLinux = process.platform === 'linux';

const small: readonly Entry[] = [
  { name: 'a', dtype: 'F32', shape: [5, 7] },
  { name: 'empty', dtype: 'F32', shape: [0] },
  { name: 'b', dtype: 'U8', shape: [10_000] },
];

describe.runIf(isLinux)('pages of a cold file', () => {
  test('are left alone when they were not named', async ({ skip }) => {
    const path = writeTemporary(large);
    dropFromPageCache(path);
    using file = safeOpen(path);
    skip((file.residency() ?? 0) > MIB, 'the temporary folder cannot be dropped from the cache');
    await file.prefetch(['b']);
    expect(file.residency('b')).toBe(16 * MIB);
    // The system chooses how far it reads ahead: 8 MiB are common.
    expect(file.residency('d')).toBe(0);
  });
});

describe.runIf(isLinux)('where the kernel is too old to populate', () => {
  const python = findPython();

  test.skipIf(isSkipped(python)).each([
    ['close', 'SAFETENSORS_FILE_CLOSED'],
    ['detach-views', 'SAFETENSORS_FILE_CLOSED'],
    ['truncate', 'SAFETENSORS_FILE_CHANGED'],
  ])('they are touched in memory that stays: %s', (ending, code) => {
    const path = writeTemporary(medium);
    dropFromPageCache(path);
    const left = { descriptors: 0, fileMappings: 0 };
    expect(runOnOldKernel(python, 'file/children/prefetch-endings.mjs', [path, ending])).toEqual({
      code,
      ok: false,
      left,
    });
  });
});

describe.runIf(isLinux)('a prefetch under way', () => {
  test.each([
    ['close', 'SAFETENSORS_FILE_CLOSED'],
    ['detach', 'SAFETENSORS_FILE_CLOSED'],
    ['detach-views', 'SAFETENSORS_FILE_CLOSED'],
    ['truncate', 'SAFETENSORS_FILE_CHANGED'],
  ])('%s', async (ending, code) => {
    const path = writeTemporary(medium);
    dropFromPageCache(path);
    const seen = await measureInChild('file/children/prefetch-endings.mjs', [path, ending]);
    const left = { descriptors: 0, fileMappings: 0 };
    expect(seen).toEqual({ code, ok: false, left });
  });

  test('pages that are gone are an error of the kernel, not a signal', async () => {
    const path = writeTemporary(medium);
    const seen = await measureInChild('file/children/prefetch-endings.mjs', [path, 'unreadable']);
    expect(seen).toEqual(['none', 'EIO', 'EIO']);
  });

  test.each([
    ['return', 0],
    ['exit', 7],
    ['worker-terminate', 0],
    ['worker-alive', 0],
  ])('ends with its process or worker: %s', async (ending, expected) => {
    const path = writeTemporary(medium);
    dropFromPageCache(path);
    const { code, signal, stdout } = await runChild('file/children/prefetch-endings.mjs', [
      path,
      ending,
      nightly('5', '2'),
    ]);
    expect({ code, signal }).toEqual({ code: expected, signal: null });
    if (ending === 'worker-terminate') expect(stdout.trim()).toBe('0');
  });

  test('stops soon after an abort', async ({ skip }) => {
    const path = writeTemporary(large);
    dropFromPageCache(path);
    using file = safeOpen(path);
    skip((file.residency() ?? 0) > MIB, 'the temporary folder cannot be dropped from the cache');
    const controller = new AbortController();
    const reason = new Error('enough');
    const running = file.prefetch(undefined, { signal: controller.signal });
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect(file.residency()).toBeLessThan(64 * MIB);
    await expect(file.prefetch(['a'], { signal: controller.signal })).rejects.toBe(reason);
    expect(file.ok).toBe(true);
  });

  test('many at once all end, whatever the number of threads', async () => {
    using file = safeOpen(writeTemporary(medium));
    const names = ['a', 'b', 'c', 'd'];
    const runs = Array.from({ length: 8 * availableParallelism() }, (_, i) =>
      file.prefetch(names.slice(i % 4)),
    );
    await Promise.all(runs);
    expect(file.residency()).toBe(file.byteLength());
  });
});

describe("storage: 'read'", () => {
  /** Other bytes of the same length in a file that looks untouched otherwise. */
  function overwriteData(path: string, byteLength: number): void {
    const fd = openSync(path, 'r+');
    writeSync(
      fd,
      new Uint8Array(byteLength).fill(99),
      0,
      byteLength,
      fileBytes(small).length - byteLength,
    );
    closeSync(fd);
    utimesSync(path, 1, 1);
  }

  test('fills the buffers that the tensors keep', async () => {
    const path = writeTemporary(small);
    using file = safeOpen(path, { storage: 'read' });
    const early = file.getTensor('a').bytes;
    const reports: TransferProgress[] = [];
    await file.prefetch(undefined, { onProgress: (report) => reports.push(report) });
    // `a` was there already.
    expect(reports).toEqual([{ bytes: 10_000, totalBytes: 10_000 }]);
    expect(file.getTensor('a').bytes.buffer).toBe(early.buffer);
    overwriteData(path, 10_000);
    expect(file.getTensor('b').bytes.subarray(0, 3)).toEqual(Uint8Array.of(1, 2, 3));
    expect(file.getTensor('b').buffer.byteLength).toBe(10_000);
    expect(file.getTensor('empty').bytes.length).toBe(0);
  });

  test('reads what is asked for, and nothing else', async () => {
    const path = writeTemporary(small);
    using file = safeOpen(path, { storage: 'read' });
    await file.prefetch(new Set(['a']));
    overwriteData(path, 10_000 + 140);
    expect(file.getTensor('a').bytes[0]).toBe(1);
    expect(file.getTensor('b').bytes[0]).toBe(99);
  });

  test('a detaching close empties the buffers too', async () => {
    const file = safeOpen(writeTemporary(small), { storage: 'read' });
    await file.prefetch();
    const { buffer } = file.getTensor('b');
    file.close({ detach: true });
    expect(buffer.byteLength).toBe(0);
  });

  test('two at once leave one buffer', async () => {
    using file = safeOpen(writeTemporary(small), { storage: 'read' });
    await Promise.all([file.prefetch(), file.prefetch()]);
    expect(file.getTensor('b').bytes).toEqual(file.getTensor('b').bytes);
    expect(file.getTensor('b').buffer).toBe(file.getTensor('b').buffer);
  });

  test('is refused when the file is closed meanwhile', async () => {
    const file = safeOpen(writeTemporary(medium), { storage: 'read' });
    const running = file.prefetch();
    file.close();
    await expect(running).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  });
});

test('bytes in memory need no prefetch', async () => {
  using file = parse(fileBytes(small));
  const reports: TransferProgress[] = [];
  await file.prefetch(['a'], { onProgress: (report) => reports.push(report) });
  expect(reports).toEqual([{ bytes: 140, totalBytes: 140 }]);
});

test.each(['mmap', 'read'] as const)('refuses what cannot be prefetched: %s', async (storage) => {
  const file = safeOpen(writeTemporary(small), { storage });
  await expect(file.prefetch(['a', 'x'])).rejects.toMatchObject({
    code: 'SAFETENSORS_TENSOR_NOT_FOUND',
    tensor: 'x',
  });
  await expect(file.prefetch('a')).rejects.toThrow(/names must be an iterable of strings/);
  const one = 1 as unknown as Iterable<string>;
  await expect(file.prefetch(one)).rejects.toThrow(/names must be an iterable of strings/);
  await expect(file.prefetch([1 as unknown as string])).rejects.toThrow(/name must be a string/);
  const options = { signal: 'stop' as unknown as AbortSignal };
  await expect(file.prefetch([], options)).rejects.toThrow(/signal must be an AbortSignal/);
  await expect(file.prefetch([])).resolves.toBeUndefined();
  file.close();
  await expect(file.prefetch()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  await expect(file.prefetch([])).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
});
