/** Packages of the rivals, which are installed in `benchmarks/node_modules`. */
import { createRequire } from 'node:module';

const RIVALS = '../../../benchmarks/node_modules/';
const require = createRequire(import.meta.url);

/** A CommonJS package, or a module of it by its path. */
export function requireRival<Package>(name: string): Package {
  return require(`${RIVALS}${name}`);
}

/** A module of a package that has no CommonJS. */
export function importRival<Package>(path: string): Promise<Package> {
  return import(`${RIVALS}${path}`);
}
