/** A save takes no more than 64 MB of memory, however large the file. */
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { temporaryPath } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';
import { writeTensors } from '../../support/write-tensors.js';

const BYTE_LENGTH = 100_000_000;
const LIMIT = 64_000_000;

interface Growth {
  readonly anonymous: number;
  readonly resident: number;
  readonly byteLength: number;
}

describe.runIf(process.platform === 'linux')('a save of 100 MB', () => {
  test.each(['memory', 'stream', 'copied', 'mapped', 'read'])('from %s', async (way) => {
    const source = temporaryPath('source');
    const isFromFile = ['copied', 'mapped', 'read'].includes(way);
    const data = new Uint8Array(isFromFile ? BYTE_LENGTH : 1);
    const x = { dtype: 'U8', shape: [data.length], data } as const;
    writeTensors(source, { x });
    const growth = await measureInChild<Growth>('write/save/children/save-memory.mjs', [
      way,
      source,
      temporaryPath('target'),
      `${BYTE_LENGTH}`,
    ]);
    expect(growth.byteLength).toBeGreaterThan(BYTE_LENGTH);
    expect(growth.anonymous).toBeLessThan(LIMIT);
    // Pages of a mapping that is written from are the page cache's, but count as resident.
    if (way !== 'mapped') expect(growth.resident).toBeLessThan(LIMIT);
  });
});
