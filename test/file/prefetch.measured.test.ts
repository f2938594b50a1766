/** Page faults and memory of processes that read prefetched files. */
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import type { TransferProgress } from '../support/api.js';
import { writeTemporary } from '../support/make-file.js';
import { dropFromPageCache } from '../support/page-cache.js';
import { findPython, isSkipped, titleWith } from '../support/python.js';
import { measureInChild } from '../support/run-child.js';
import { large, MIB, runOnOldKernel } from './prefetched-files.js';

const isLinux = process.platform === 'linux';

/** The output of `file/children/prefetch-faults.mjs`. */
interface Reading {
  readonly byteLength: number;
  readonly residentBefore: number;
  readonly residentAfter: number;
  readonly anonymous: number;
  readonly majorFaults: number;
  readonly progress?: TransferProgress;
  readonly sum: number;
}

describe.runIf(isLinux)('pages of a cold file', () => {
  function readCold(how: string): Promise<Reading> {
    const path = writeTemporary(large);
    expect(dropFromPageCache(path), 'needs GNU dd').toBe(true);
    return measureInChild<Reading>('file/children/prefetch-faults.mjs', [path, how]);
  }

  test('are read one by one without a prefetch', async ({ skip }) => {
    const reading = await readCold('none');
    skip(reading.residentBefore > MIB, 'the temporary folder cannot be dropped from the cache');
    expect(reading.majorFaults).toBeGreaterThan(0);
    expect(reading.residentAfter).toBe(reading.residentBefore);
  });

  test.each(['prefetch', 'twice'])('are all there after a %s', async (how) => {
    const reading = await readCold(how);
    console.info(how, reading);
    expect(reading.majorFaults).toBe(0);
    expect(reading.residentAfter).toBe(reading.byteLength);
    // The file has 64 MiB: nothing was copied.
    expect(reading.anonymous).toBeLessThan(16 * MIB);
    if (how === 'prefetch') {
      expect(reading.progress).toEqual({ bytes: 64 * MIB, totalBytes: 64 * MIB });
    }
  });
});

describe.runIf(isLinux)('where the kernel is too old to populate', () => {
  const python = findPython();

  test.skipIf(isSkipped(python))(titleWith(python, 'pages are touched'), () => {
    const path = writeTemporary(large);
    dropFromPageCache(path);
    const reading = runOnOldKernel<Reading>(python, 'file/children/prefetch-faults.mjs', [
      path,
      'prefetch',
    ]);
    expect(reading.majorFaults).toBe(0);
    expect(reading.residentAfter).toBe(reading.byteLength);
    expect(reading.anonymous).toBeLessThan(16 * MIB);
  });
});
