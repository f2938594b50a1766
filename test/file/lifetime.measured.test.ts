import { describe, expect, test } from 'vitest';
import { writeTemporary } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';
import { measureInChild } from '../support/run-child.js';

interface Counters {
  readonly descriptors: number;
  readonly fileMappings: number;
  readonly mappings: number;
  readonly anonymousBytes: number;
}

interface Leaving {
  readonly before: Counters;
  readonly most: Counters;
  readonly after: Counters;
}

const small = [{ name: 't', dtype: 'U8', shape: [5000] }] as const;

/** Allowance for heap growth, and for fragmentation where files are read: 300 bytes per file that is closed and mapped. */
const NOISE = { mmap: nightly(24, 16) * 2 ** 20, read: 24 * 2 ** 20 };

describe('nothing is left behind', () => {
  test.each([
    [nightly(100_000, 50_000), 'close', 'mmap'],
    [5_000, 'drop', 'mmap'],
    [nightly(20_000, 12_000), 'detach', 'mmap'],
    [nightly(20_000, 12_000), 'close', 'read'],
    [5_000, 'drop', 'read'],
  ] as const)(
    '%i files, %s, %s',
    async (count, ending, storage) => {
      const args = [writeTemporary(small), `${count}`, ending, storage];
      const { before, most, after } = await measureInChild<Leaving>(
        'file/children/open-and-leave.mjs',
        args,
      );
      console.info(`${count} × ${ending} (${storage})`, { before, most, after });
      expect(after.descriptors).toBeLessThanOrEqual(before.descriptors);
      expect(after.fileMappings).toBe(0);
      // Detached ranges stay in quarantine, up to 4 096 of them; the rest is the heap's.
      expect(after.mappings).toBeLessThanOrEqual(before.mappings + 4_096 + 200);
      expect(after.anonymousBytes).toBeLessThanOrEqual(before.anonymousBytes + NOISE[storage]);
      expect(most.descriptors).toBeLessThan(1_100 + before.descriptors);
    },
    180_000,
  );
});

test('slices over storage read are not kept by the file', async () => {
  const { held, read } = await measureInChild<{ held: number; read: number }>(
    'file/children/drop-slices.mjs',
  );
  expect(read).toBe(50 * 2 ** 20);
  expect(held).toBeLessThan(10 * 2 ** 20);
});
