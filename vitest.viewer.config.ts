/** Runs the tests of test/viewer/browser: the page in real browsers, which must be there. */
import { defineConfig } from 'vitest/config';
import { findChromium, findFirefox } from './test/support/browser.js';
import base from './vitest.config.js';

// In ordinary runs these tests are skipped without one.
if (findChromium() === null) throw new Error('there is no Chromium: apt-get install chromium');
if (findFirefox() === null) throw new Error('there is no Firefox: apt-get install firefox-esr');

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/viewer/page.test.ts', 'test/viewer/browser/*.test.ts'],
    exclude: [],
    // One browser at a time: times and memory are measured.
    fileParallelism: false,
  },
});
