/** The largest real layout by shape, with sparse data. */
import { mkdirSync } from 'node:fs';
import process from 'node:process';
import { expect, it } from 'vitest';
import { temporaryPath } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';

const MAX_MILLISECONDS = 2000;

interface Measurement {
  readonly facts: unknown;
  readonly milliseconds: number;
  readonly cpuMilliseconds: number;
}

// 689 GB: elsewhere files may not be sparse.
it.runIf(process.platform === 'linux')(
  'the 163 files of DeepSeek-V3 are opened and planned, and one expert is read, in less than 2 s',
  async () => {
    let least = Number.POSITIVE_INFINITY;
    // Other work on the same processor makes each of them longer: the least of three runs counts.
    for (let runs = 0; runs < 3 && least >= MAX_MILLISECONDS; runs++) {
      const folder = temporaryPath(`deepseek-${runs}`);
      mkdirSync(folder);
      const script = 'quantized/children/large-layout.mjs';
      const { facts, milliseconds, cpuMilliseconds } = await measureInChild<Measurement>(script, [
        folder,
      ]);
      expect(facts).toEqual({
        stored: 91_991,
        logical: 46_183,
        quantized: 45_808,
        problems: 0,
        wrong: 0,
      });
      least = Math.min(least, milliseconds, cpuMilliseconds);
    }
    process.stdout.write(`DeepSeek-V3, opened, planned, one expert: ${least.toFixed(0)} ms\n`);
    expect(least).toBeLessThan(MAX_MILLISECONDS);
  },
);
