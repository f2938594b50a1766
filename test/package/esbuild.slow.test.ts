/** Programs that esbuild bundles, with and without the addon. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  App,
  expectMapped,
  expectRead,
  firstLines,
  recipe,
  runShipped,
} from '../support/deployed-app.js';
import { pack } from '../support/installed-package.js';
import { root } from '../support/source-tree.js';

let folder: string;
let tarball: string;

function makeApp(firstLines = ''): App {
  const app = new App(folder, tarball, [join(root, 'node_modules/.bin')]);
  app.writePrograms(firstLines);
  return app;
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-esbuild-'));
  // Compiling would take `lib/` away from tests that run at the same time.
  tarball = pack(root, join(folder, 'tarball'), '--ignore-scripts').filename;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NOT_SHIPPED = /found no addon for linux-x64 at /;

describe.each([
  {
    format: 'an ES module',
    commands: recipe('esbuild', 0),
    external: recipe('esbuild', 2),
    bundle: 'dist/app.mjs',
    here: 'import.meta.dirname',
    type: 'module',
  },
  {
    format: 'CommonJS',
    commands: recipe('esbuild', 1),
    external: recipe('esbuild', 2).replace('esm', 'cjs').replace('dist/app.mjs', 'dist/app.cjs'),
    bundle: 'dist/app.cjs',
    here: '__dirname',
    type: 'commonjs',
  },
])('a bundle that is $format', ({ commands, external, bundle, here, type }) => {
  it('warns once and reads when the addon was not shipped', () => {
    const app = makeApp();
    app.build(commands);
    expectRead(runShipped(process.execPath, join(app.ship(bundle), bundle)), NOT_SHIPPED);
  });

  it('warns once and reads when the addon is not where the program says', () => {
    const app = makeApp(firstLines(here));
    app.build(commands);
    const result = runShipped(process.execPath, join(app.ship(bundle), bundle));
    expectRead(result, /found no addon for linux-x64 at .*dist\/safetensors-mmap\.node\./);
  });

  it('maps when the addon lies beside it', () => {
    const app = makeApp();
    app.build(commands);
    expectMapped(runShipped(process.execPath, join(app.ship('dist'), bundle)));
  });

  it('maps when the addon lies where the program says', () => {
    const app = makeApp(firstLines(here));
    app.build(commands);
    expectMapped(runShipped(process.execPath, join(app.ship('dist'), bundle)));
  });

  // Another user may be allowed to write next to the folder of a bundle.
  it.each(['dist/app', 'lib/core'])('%s.js loads nothing from the folders around it', (name) => {
    const moved = `${name}.js`;
    const app = makeApp();
    app.build(commands.replaceAll(bundle, moved).replaceAll('dist/', `${dirname(moved)}/`));
    app.build(`mv node_modules/safetensors-mmap/prebuilds . && rm ${dirname(moved)}/*.node`);
    app.write('package.json', `{ "name": "stranger", "type": "${type}" }`);
    const shipped = app.ship(dirname(moved), 'prebuilds', 'package.json');
    expectRead(runShipped(process.execPath, join(shipped, moved)), NOT_SHIPPED);
  });

  it('maps when the package stays in node_modules', () => {
    const app = makeApp();
    app.build(external);
    expectMapped(runShipped(process.execPath, join(app.ship('dist', 'node_modules'), bundle)));
  });
});

it('errors keep their names in a bundle with short names', () => {
  const app = makeApp();
  app.write(
    'app.mjs',
    `import * as all from 'safetensors-mmap';
     for (const [name, value] of Object.entries(all)) {
       if (value.prototype instanceof Error) console.log(name, value.prototype.name);
     }
     try { all.parse(new Uint8Array()); } catch (error) { console.log(String(error)); }`,
  );
  app.build(recipe('esbuild', 0).replace('--bundle', '--bundle --minify'));
  const { stdout } = runShipped(process.execPath, join(app.ship('dist'), 'dist/app.mjs'));
  const lines = stdout.trimEnd().split('\n');
  expect(lines.pop()).toMatch(/^FormatError: expected at least 8 bytes/);
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) expect(line).toMatch(/^(\w+) \1$/);
});
