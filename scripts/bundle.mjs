// Bundles the entry points of the package from src/ into lib/, with their types.
//
// package.json's `exports` lists the entries, and nothing else does: `./lib/NAME.js` is made of
// `src/NAME.ts`. What several entries need goes into chunks beside them, so that a class is the same
// whichever entry it comes from, and so that one relative path to `prebuilds/` is right for all.

import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'build');
const lib = join(root, 'lib');

/** Names of the entries: what stands between `./lib/` and `.js` in `exports`. */
function entryNames() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const targets = Object.values(exports).map((target) => target.default ?? target);
  return targets.flatMap((target) => /^\.\/lib\/(.+)\.js$/.exec(target)?.[1] ?? []);
}

/**
 * Takes Node's builtins where they are used instead of at import. A static import of `node:fs` makes
 * Node build an ES module around it, with every getter run, which loads some 60 modules of its own.
 * esbuild reads names of a CommonJS module at the place of use: here through a proxy that asks
 * `process.getBuiltinModule` (Node 20.16) at the first of them. `node:process` is the global: test
 * runners give their tests a copy of it, with variables of its own.
 */
const lateBuiltins = {
  name: 'late-builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ path }) => ({ path, namespace: 'late-builtin' }));
    onLoad({ filter: /./, namespace: 'late-builtin' }, ({ path }) => {
      const source = path === 'node:process' ? 'process' : `process.getBuiltinModule('${path}')`;
      return {
        contents: `let builtin;
const get = (_, name) => (builtin ??= ${source})[name];
module.exports = Object.create(new Proxy({}, { get }));`,
      };
    });
  },
};

/** A bundle in lib/ is one folder below the package's root, the module that names the addon two. */
const addonLocation = {
  name: 'addon-location',
  setup({ onLoad }) {
    onLoad({ filter: /addon[\\/]location\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      const contents = source.replaceAll('../../prebuilds/', '../prebuilds/');
      if (contents === source) throw new Error(`${path}: the addon is not where it was`);
      return { contents, loader: 'ts' };
    });
  },
};

/** Copies the declarations that an entry reaches, with their folders. */
function copyTypes(file, copied = new Set()) {
  if (copied.has(file)) return;
  copied.add(file);
  const target = join(lib, file);
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(join(modules, file), target);
  const text = readFileSync(target, 'utf8');
  for (const [, path] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)) {
    copyTypes(join(dirname(file), `${path}.d.ts`), copied);
  }
}

rmSync(lib, { recursive: true, force: true });
const names = entryNames();
await build({
  entryPoints: names.map((name) => join(root, `src/${name}.ts`)),
  outdir: lib,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  chunkNames: 'chunk-[hash]',
  sourcemap: true,
  sourcesContent: false,
  // Classes that mention themselves are renamed otherwise, and people see `_Tensor`.
  keepNames: true,
  logLevel: 'warning',
  plugins: [lateBuiltins, addonLocation],
});
for (const name of names) copyTypes(`${name}.d.ts`);
