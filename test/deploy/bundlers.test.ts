/** Programs that bundlers build by the recipes of docs/bundlers.md; esbuild's are in test/package. */
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type App,
  expectMapped,
  expectRead,
  type Output,
  recipe,
  runShipped,
} from '../support/deployed-app.js';
import { textOf } from '../support/source-tree.js';
import { makeApp, programOf, pruneAll, pruneOthers, type Runtime } from './tools.js';

const NOT_SHIPPED = /found no addon for linux-x64 at /;

/** Copies the given paths only, and runs a bundle among them. */
function runBundle(app: App, bundle: string, paths: string[], runtime: Runtime = 'node'): Output {
  return runShipped(programOf(runtime), join(app.ship(...paths), bundle));
}

describe('webpack', () => {
  function build(output: object, options: object = {}, app = makeApp()): App {
    const config = { mode: 'production', target: 'node', entry: './app.mjs', output, ...options };
    app.write(
      'build.mjs',
      `import webpack from 'webpack';
       webpack(${JSON.stringify(config)}, (error, stats) => {
         if (error || stats.hasErrors() || stats.hasWarnings()) throw error ?? stats.toString();
       });`,
    );
    app.build('node build.mjs');
    return app;
  }

  it('ships the addon with an ES module, which maps', () => {
    const app = build(
      { filename: 'app.mjs', module: true },
      { experiments: { outputModule: true } },
    );
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist']));
  });

  it('ships the addon with CommonJS, which maps', () => {
    expectMapped(runBundle(build({ filename: 'app.cjs' }), 'dist/app.cjs', ['dist']));
  });

  describe.each([
    { filename: 'app.mjs', module: true },
    { filename: 'app.cjs', module: false },
  ])('as $filename, from a package without', ({ filename, module }) => {
    const buildWithout = (prune: (app: App) => void): App => {
      const app = makeApp();
      prune(app);
      return build({ filename, module }, { experiments: { outputModule: module } }, app);
    };

    it('the addons of other platforms maps', () => {
      const app = buildWithout(pruneOthers);
      expectMapped(runBundle(app, `dist/${filename}`, ['dist']));
    });

    it('any addon warns once and reads, or maps with the addon beside it', () => {
      const app = buildWithout(pruneAll);
      app.build('cp node_modules/safetensors-mmap/build/Release/safetensors-mmap.node .');
      const shipped = app.ship('dist', 'safetensors-mmap.node');
      const bundle = join(shipped, 'dist', filename);
      expectRead(runShipped(programOf('node'), bundle), NOT_SHIPPED);
      renameSync(
        join(shipped, 'safetensors-mmap.node'),
        join(shipped, 'dist/safetensors-mmap.node'),
      );
      expectMapped(runShipped(programOf('node'), bundle));
    });
  });

  it('with a public path warns once and reads', () => {
    const app = build({ filename: 'app.cjs', publicPath: '/static/' });
    expectRead(runBundle(app, 'dist/app.cjs', ['dist']), NOT_SHIPPED);
  });

  it('with a public path maps when the package stays in node_modules', () => {
    const externals = { 'safetensors-mmap': 'commonjs safetensors-mmap' };
    expect(textOf('docs/bundlers.md')).toContain(
      "`externals: { 'safetensors-mmap': 'commonjs safetensors-mmap' }`",
    );
    const app = build({ filename: 'app.cjs', publicPath: '/static/' }, { externals });
    expectMapped(runBundle(app, 'dist/app.cjs', ['dist', 'node_modules']));
  });
});

describe('rollup', () => {
  it.each([
    { format: 'es', bundle: 'dist/app.mjs' },
    { format: 'cjs', bundle: 'dist/app.cjs' },
  ])('maps with the addon beside the bundle of format $format', ({ format, bundle }) => {
    const app = makeApp();
    app.build(recipe('rollup').replace('-f es', `-f ${format}`).replace('dist/app.mjs', bundle));
    expectMapped(runBundle(app, bundle, ['dist']));
  });

  it('without the addon warns once and reads', () => {
    const app = makeApp();
    app.build(recipe('rollup'));
    expectRead(runBundle(app, 'dist/app.mjs', ['dist/app.mjs']), NOT_SHIPPED);
  });

  it('maps when the package stays in node_modules', () => {
    const app = makeApp();
    app.build(recipe('rollup', 1));
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist', 'node_modules']));
  });
});

describe('Vite SSR', () => {
  it('leaves the package in node_modules, where it maps', () => {
    const app = makeApp();
    app.build(recipe('Vite SSR'));
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist', 'node_modules']));
  });

  it('with noExternal maps when the addon lies beside the bundle', () => {
    const app = makeApp();
    app.write('vite.config.mjs', 'export default { ssr: { noExternal: true } };');
    app.build(recipe('Vite SSR', 1));
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist']));
  });

  it('with noExternal and without the addon warns once and reads', () => {
    const app = makeApp();
    app.write('vite.config.mjs', 'export default { ssr: { noExternal: true } };');
    app.build(recipe('Vite SSR'));
    expectRead(runBundle(app, 'dist/app.mjs', ['dist']), NOT_SHIPPED);
  });
});

describe.each(['node', 'bun'] as const)('bun build, for and run by %s', (runtime) => {
  const commands = recipe('bun build').replace('--target=node', `--target=${runtime}`);

  it('maps when the addon lies beside the bundle', () => {
    const app = makeApp();
    app.build(commands);
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist'], runtime));
  });

  it('without the addon warns once and reads', () => {
    const app = makeApp();
    app.build(commands);
    expectRead(runBundle(app, 'dist/app.mjs', ['dist/app.mjs'], runtime), NOT_SHIPPED);
  });
});
