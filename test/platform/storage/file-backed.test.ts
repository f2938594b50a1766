/** How often a storage asks the system whether its file is unchanged. */
import { appendFileSync, closeSync, readFileSync, truncateSync } from 'node:fs';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { addon as loaded } from '../../../src/platform/addon/addon.js';
import type { Addon } from '../../../src/platform/addon/binding.js';
import { openRegularFile } from '../../../src/platform/io/opened-file.js';
import { MappedStorage } from '../../../src/platform/storage/mapped.js';
import { runSync } from '../../../src/work/work.js';
import { safeOpen } from '../../support/api.js';
import { writeTemporary } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';

const addon = loaded() as Addon;
const entries = [{ name: 'a', dtype: 'F32', shape: [4] }] as const;
const changed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' });

/** A storage over a new file, and how often it has asked since it was made. */
function storageThatCounts() {
  const readFileState = vi.fn(addon.readFileState);
  const path = writeTemporary(entries);
  const file = runSync(openRegularFile(path, path));
  const start = new Uint8Array(readFileSync(path).subarray(0, -16));
  const mapping = addon.mapFile(file.fd, file.byteLength, true, path);
  closeSync(file.fd);
  const storage = new MappedStorage(file, start, { ...addon, readFileState }, mapping);
  readFileState.mockClear();
  return { storage, path, asked: readFileState.mock.calls };
}

test('verifyOften asks at most once in a millisecond, verify every time', () => {
  const { storage, asked } = storageThatCounts();
  const begin = performance.now();
  let calls = 0;
  for (; performance.now() < begin + 20; calls++) storage.verifyOften();
  const milliseconds = performance.now() - begin;
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.length).toBeLessThanOrEqual(milliseconds + 1);
  expect(asked.length).toBeLessThan(calls);

  const before = asked.length;
  for (let i = 0; i < 10; i++) storage.verify();
  expect(asked.length).toBe(before + 10);
  storage.close(false);
  expect(() => storage.verifyOften()).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }),
  );
});

test('what verify found is noticed at once', () => {
  const { storage, path } = storageThatCounts();
  storage.verifyOften();
  appendFileSync(path, 'x');
  expect(() => storage.verify()).toThrow(changed);
  expect(() => storage.verifyOften()).toThrow(changed);
});

test('a clock that a test replaces does not stop the checks', async () => {
  using clock = vi.spyOn(process.hrtime, 'bigint').mockReturnValue(0n);
  const path = writeTemporary(entries);
  using file = safeOpen(path);
  file.getTensor('a');
  truncateSync(path, 30);
  await setTimeout(5);
  expect(() => file.getTensor('a')).toThrow(changed);
  expect(clock).not.toHaveBeenCalled();
});

test('within that millisecond, copies notice a file cut short, and getTensor what the guard saw', async () => {
  expect(await measureInChild('tensor/storage/children/still-clock.mjs')).toEqual({
    getTensor: 'passes',
    bytes: 'passes',
    copy: 'SAFETENSORS_FILE_CHANGED',
    load: 'SAFETENSORS_FILE_CHANGED',
    prefetch: 'SAFETENSORS_FILE_CHANGED',
    toFloat32: 'SAFETENSORS_FILE_CHANGED',
    afterReading: 'SAFETENSORS_FILE_CHANGED',
    afterReadingAnother: 'passes',
  });
});
