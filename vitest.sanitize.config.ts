import { configDefaults, defineConfig, mergeConfig } from 'vitest/config';
import base from './vitest.config.js';

/** Tests under AddressSanitizer: `npm run sanitize -- addresses`. */
export default mergeConfig(
  base,
  defineConfig({
    test: {
      setupFiles: ['test/sanitize/check-leaks.ts'],
      // About the path of the addon, which is another one here.
      exclude: [...configDefaults.exclude, 'test/platform/storage/mapping-status.test.ts'],
      testTimeout: 900_000,
      hookTimeout: 900_000,
    },
  }),
);
