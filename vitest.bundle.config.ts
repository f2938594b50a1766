/** Runs the tests that use the public names alone on the bundle in `lib/` instead of the sources. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import base from './vitest.config.js';

const root: string = fileURLToPath(new URL('.', import.meta.url));
const PUBLIC_ENTRY = /'(?:\.\.\/)+src\/(index|remote|convert|hub|inspect|quantized)\.js'/;
const INTERNALS = /'(?:\.\.\/)+src\/[\w-]+\/|vi\.mock\(/;

const publicTests: string[] = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .filter(
    (path) =>
      path.endsWith('.test.ts') && !/^(?:benchmarks|deploy|examples|viewer)[\\/]/.test(path),
  )
  .filter((path) => {
    const text = readFileSync(join(root, 'test', path), 'utf8');
    return PUBLIC_ENTRY.test(text) && !INTERNALS.test(text);
  })
  .map((path) => `test/${path}`);

export default defineConfig({
  ...base,
  plugins: [
    {
      name: 'bundle-for-sources',
      enforce: 'pre',
      resolveId: (id: string) => {
        const [, entry] = PUBLIC_ENTRY.exec(`'${id}'`) ?? [];
        return entry === undefined ? undefined : join(root, `lib/${entry}.js`);
      },
    },
  ],
  test: { ...base.test, include: publicTests },
});
