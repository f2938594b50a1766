/** Runs the tests of test/examples: the programs of examples/, with the packed package. */
import { defineConfig } from 'vitest/config';
import base from './vitest.config.js';

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/examples/*.test.ts'],
    exclude: [],
    testTimeout: 600_000,
    globalSetup: ['test/support/python-server.ts', 'test/examples/setup.ts'],
  },
});
