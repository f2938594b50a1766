/** Runs the tests of test/site: the site, built from nothing and looked at in Chromium. */
import { defineConfig } from 'vitest/config';
import base from './vitest.config.js';

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/site/*.test.ts'],
    exclude: [],
    globalSetup: [],
    // The first run installs its tools.
    hookTimeout: 1_200_000,
  },
});
