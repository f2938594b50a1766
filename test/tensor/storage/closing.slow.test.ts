/** Many files that are closed, under a limit of the system for descriptors. */
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

const LIMIT = 256;

/** Garbage is collected for so many closed files. */
const COLLECTED = 4096;

const cases = ['mmap', 'read'].flatMap((storage) =>
  ['touched', 'untouched'].flatMap((touch) =>
    ['kept', 'dropped'].map((keep) => {
      const isCollected = touch === 'untouched' && keep === 'dropped';
      const count = nightly(10_000, isCollected ? COLLECTED + 1000 : 4 * LIMIT);
      return { storage, touch, keep, isCollected, count };
    }),
  ),
);

interface Measurement {
  readonly rounds: number;
  readonly most: number;
  readonly mappings: number;
  readonly sum: number;
}

describe.runIf(process.platform === 'linux')(`under a limit of ${LIMIT} descriptors`, () => {
  test.each(cases)(
    '$count rounds, storage $storage, tensors $touch and $keep',
    async ({ storage, touch, keep, isCollected, count }) => {
      const path = temporaryPath('small.safetensors');
      writeFileSync(path, fileBytes([{ name: 't', dtype: 'U8', shape: [4] }]));
      const { rounds, most, mappings, sum } = await measureInChild<Measurement>(
        'tensor/storage/children/close-rounds.mjs',
        [path, `${count}`, storage, touch, keep],
        { limits: `-n ${LIMIT}` },
      );
      // The second byte of every tenth tensor is 2.
      const kept = keep === 'kept' ? 2 * Math.ceil(count / 10) : 0;
      expect([rounds, sum]).toEqual([count, kept]);
      expect(most).toBeLessThanOrEqual(LIMIT);
      if (isCollected) expect(mappings).toBeLessThan(COLLECTED + 104);
    },
  );
});
