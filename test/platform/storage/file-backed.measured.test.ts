import process from 'node:process';
import { expect, test } from 'vitest';
import { writeTemporary } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';

test.runIf(process.platform === 'linux')(
  'slices of a file that is read do not pile up in a loop without a pause',
  async () => {
    // Sixteen rows of 128 kB; ten thousand of them have 1.3 GB.
    const path = writeTemporary([{ name: 'rows', dtype: 'U8', shape: [16, 131_072] }]);
    const script = 'platform/storage/children/slice-in-a-loop.mjs';
    const { grown } = await measureInChild<{ grown: number }>(script, [path]);
    expect(grown).toBeLessThan(250e6);
  },
);
