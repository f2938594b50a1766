/** Runs the tests of test/deploy: the package where people put it, with bundlers and other runtimes. */
import { defineConfig } from 'vitest/config';
import base from './vitest.config.js';

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/deploy/*.test.ts'],
    exclude: [],
    // Builds by Next.js take a minute where other things run.
    testTimeout: 600_000,
    globalSetup: 'test/deploy/setup.ts',
  },
});
