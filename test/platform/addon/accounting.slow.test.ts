import process from 'node:process';
import { expect, test } from 'vitest';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

test.each([
  ['counted', { SAFETENSORS_MMAP_COUNTED_BUFFERS: '1' }],
  ['not counted, where that is possible', { SAFETENSORS_MMAP_COUNTED_BUFFERS: '' }],
])(
  "the engine's counter stays above 0 under stress, also in workers that are terminated: %s",
  async (_, env) => {
    const script = 'platform/addon/children/stress.mjs';
    const seconds = String(nightly(5, 2));
    const result = await measureInChild<{ lowest: number }>(script, [seconds], { env });
    process.stdout.write(`stress: ${JSON.stringify(result)}\n`);
    expect(result.lowest).toBeGreaterThan(0);
  },
);
