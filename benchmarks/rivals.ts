/** Packages of `benchmarks/package.json`, which may be missing. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { SOURCE_FOLDER } from './places.js';

/** Imports relative to `benchmarks/package.json`. */
export const requireRival: NodeJS.Require = createRequire(join(SOURCE_FOLDER, 'package.json'));

/** Version of a rival, or undefined when `npm run bench:setup` has not installed it or could not. */
export function rivalVersion(name: string): string | undefined {
  try {
    const path = join(SOURCE_FOLDER, 'node_modules', name, 'package.json');
    return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
  } catch {
    return undefined;
  }
}
