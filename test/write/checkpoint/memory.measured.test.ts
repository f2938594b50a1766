/** Checkpoints that are rewritten take little memory. */
import { mkdirSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

describe.runIf(process.platform === 'linux')('needs little memory for many bytes', () => {
  it('convert, dequantized', async () => {
    const folder = temporaryPath('large');
    mkdirSync(folder);
    const script = 'write/checkpoint/children/dequantize-memory.mjs';
    // Codes, pieces of float32 and of BF16, and what waits to be collected: a third of what is written.
    expect(await measureInChild<number>(script, [folder])).toBeLessThan(110e6);
  });

  it('convert into shards', async () => {
    const folder = temporaryPath('large');
    mkdirSync(folder);
    const grown = await measureInChild<number>('write/checkpoint/children/convert-memory.mjs', [
      folder,
      nightly('300000000', '100000000'),
    ]);
    expect(grown).toBeLessThan(32 * 2 ** 20);
  });
});
