/** A view retains nothing that it computes. */
import process from 'node:process';
import { expect, it } from 'vitest';
import { temporaryPath } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';

const LONGEST_TENSOR = 4 * 32064 * 2048;

// Elsewhere files may not be sparse.
it.runIf(process.platform === 'linux').each(['toFloat32', 'data'])(
  'a loop over dequantized weights by %s takes memory for the longest of them',
  async (way) => {
    const path = temporaryPath('large.safetensors');
    const grown = await measureInChild<number>('open/children/view-memory.mjs', [path, way]);
    expect(grown).toBeLessThan(LONGEST_TENSOR + 150e6);
  },
);
