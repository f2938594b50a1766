import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The benchmarks import the package by its name.
  resolve: {
    alias: { 'safetensors-mmap': fileURLToPath(new URL('src/index.ts', import.meta.url)) },
  },
  test: {
    include: ['test/**/*.test.ts'],
    // Two forks: tests that measure memory and time run their subject in child processes of their own.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
