/** A conversion takes little memory, also where elements have to be gathered. */
import { truncateSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { headerOf, npy } from '../../foreign/numpy/arrays.js';
import { temporaryPath } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';

/** Two blocks of 16 MiB, six pieces of 1 MiB, and V8's own growth. */
const LIMIT = 52e6;

/** 400 MB in Fortran order. */
const SIZE = 10_000;

interface Growth {
  readonly anonymous: number;
  readonly resident: number;
}

describe.runIf(process.platform === 'linux')('a conversion of 400 MB', () => {
  it('in Fortran order takes two blocks of memory at most', async () => {
    const source = temporaryPath('array.npy');
    const header = npy(headerOf('<f4', `(${SIZE}, ${SIZE})`, true), Buffer.alloc(0));
    writeFileSync(source, header);
    truncateSync(source, header.length + 4 * SIZE * SIZE);
    // V8 collects when it likes, which only adds: the run that takes the least counts.
    let least: Growth = { anonymous: Number.POSITIVE_INFINITY, resident: Number.POSITIVE_INFINITY };
    for (let runs = 0; runs < 3 && least.resident >= LIMIT; runs++) {
      const script = 'write/convert/children/convert-memory.mjs';
      const target = temporaryPath('model.safetensors');
      const growth = await measureInChild<Growth>(script, [source, target]);
      if (growth.resident < least.resident) least = growth;
    }
    expect(least.anonymous).toBeLessThan(LIMIT);
    expect(least.resident).toBeLessThan(LIMIT);
  });
});
