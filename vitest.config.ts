import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';

function source(entry: string): string {
  return fileURLToPath(new URL(`src/${entry}.ts`, import.meta.url));
}

export default defineConfig({
  // The benchmarks import the package by its name.
  resolve: {
    alias: [
      { find: /^safetensors-mmap$/, replacement: source('index') },
      { find: /^safetensors-mmap\/remote$/, replacement: source('remote') },
      { find: /^safetensors-mmap\/quantized$/, replacement: source('quantized') },
      { find: /^safetensors-mmap\/inspect$/, replacement: source('inspect') },
      { find: /^safetensors-mmap\/convert$/, replacement: source('convert') },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/python-server.ts'],
    setupFiles: ['test/support/equal-arrays.ts'],
    // These have tools of their own to install: `npm run test:deploy`, `test:examples`, `test:viewer`, `test:site`.
    exclude: [
      ...configDefaults.exclude,
      'test/deploy/**',
      'test/examples/**',
      'test/viewer/browser/**',
      'test/site/**',
    ],
    // Two forks: tests that measure memory and time run their subject in child processes of their own.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
