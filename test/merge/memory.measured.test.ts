/** A merge takes memory for some rows and the factors of a few weights, however large the base is. */
import { mkdirSync } from 'node:fs';
import process from 'node:process';
import { expect, it } from 'vitest';
import { temporaryPath } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';

it.runIf(process.platform === 'linux')('400 MB with an adapter take little memory', async () => {
  const folder = temporaryPath('large');
  mkdirSync(folder);
  const used = await measureInChild<number>('merge/children/merge-memory.mjs', [folder]);
  expect(used).toBeLessThan(150e6);
});
