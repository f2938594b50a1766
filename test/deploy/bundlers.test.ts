/** Programs that bundlers build by the recipes of docs/bundlers.md; esbuild's are in test/package. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type App,
  expectMapped,
  expectRead,
  firstLines,
  type Output,
  recipe,
  runShipped,
} from '../support/deployed-app.js';
import { textOf } from '../support/source-tree.js';
import { makeApp, programOf, type Runtime } from './tools.js';

const NOT_SHIPPED = /there is no addon for linux-x64 at /;

/** Ships the given paths alone, and runs a bundle among them. */
function runBundle(app: App, bundle: string, paths: string[], runtime: Runtime = 'node'): Output {
  return runShipped(programOf(runtime), join(app.ship(...paths), bundle));
}

describe('webpack', () => {
  function build(output: object, options: object = {}): App {
    const app = makeApp();
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
    { format: 'es', bundle: 'dist/app.mjs', here: 'import.meta.dirname' },
    { format: 'cjs', bundle: 'dist/app.cjs', here: '__dirname' },
  ])('maps with the addon beside the bundle of format $format', ({ format, bundle, here }) => {
    const app = makeApp(firstLines(here));
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
    const app = makeApp(firstLines('import.meta.dirname'));
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
    const app = makeApp(firstLines('import.meta.dirname'));
    app.build(commands);
    expectMapped(runBundle(app, 'dist/app.mjs', ['dist'], runtime));
  });

  it('without the addon warns once and reads', () => {
    const app = makeApp();
    app.build(commands);
    expectRead(runBundle(app, 'dist/app.mjs', ['dist/app.mjs'], runtime), NOT_SHIPPED);
  });
});
