/**
 * The package as a stranger gets it: packed from a copy of the tree, installed without network and
 * without compiler, used by `import`, by `require` and by a TypeScript program.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SHIPPED_PLATFORMS } from '../../src/platform/addon/location.js';
import { expectSameAsPython, MODEL, TENSOR } from '../support/deployed-app.js';
import {
  addNodeTypes,
  bareEnvironment,
  compileStrictly,
  install,
  type Pack,
  pack,
  runNode,
} from '../support/installed-package.js';
import { filesBelow, root, textOf } from '../support/source-tree.js';

const PACKAGE = 'safetensors-mmap';
const ADDON = `prebuilds/${process.platform}-${process.arch}/${PACKAGE}.node`;
/** Without addons, which are 0.84 MB together: the whole package stays below 3.4 MB. */
const MAX_UNPACKED_BYTES = 2_500_000;
const TSC = join(root, 'node_modules/typescript/bin/tsc');

let folder: string;

/** Runs a program of test/package/children in a project that has the package; returns its output. */
function runChild(
  project: string,
  child: string,
  args: readonly string[] = [MODEL, TENSOR],
): Record<string, unknown> {
  copyFileSync(join(root, 'test/package/children', child), join(project, child));
  const output = runNode(project, bareEnvironment(folder), child, ...args);
  return JSON.parse(output) as Record<string, unknown>;
}

let withAddon: Pack;
let withoutAddon: Pack;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-package-'));
  const copy = join(folder, 'copy');
  // With the compiled files: `prepack` compiles later changes, and bundles.
  const options = { recursive: true, preserveTimestamps: true };
  for (const path of [...filesBelow('.'), 'build', ADDON]) {
    mkdirSync(dirname(join(copy, path)), { recursive: true });
    cpSync(join(root, path), join(copy, path), options);
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  withAddon = pack(copy, join(folder, 'with-addon'));
  rmSync(join(copy, ADDON));
  withoutAddon = pack(copy, join(folder, 'without-addon'), '--ignore-scripts');
}, 300_000);

afterAll(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

describe('the tarball', () => {
  it('holds the library, its types, the addon and the pages, and nothing else', () => {
    const expected = [
      ...[
        'core',
        'writing',
        'foreign',
        'conversion',
        'merging',
        'yaml',
        'remote-core',
        'download',
        'verification',
        'shared',
        'torch',
        'program',
        'commands',
        'listing',
        'show',
        'merged-files',
        'convert-remote',
        'verify-values',
      ].map((name) => `lib/${name}.js`),
      ...['dequantizing', 'distributed', 'inspection', 'inspect', 'cli'].map(
        (name) => `lib/${name}.js`,
      ),
      ...['get-east-asian-width', 'js-yaml', 'preact'].map((name) => `lib/licences/${name}.txt`),
      'lib/viewer/index.html.br',
      'lib/safetensors-mmap.1',
      ...['index', 'hub'].map((name) => `lib/${name}.js`),
      ...readdirSync(join(folder, 'copy/lib/browser'))
        .filter((name) => name.endsWith('.js'))
        .map((name) => `lib/browser/${name}`),
      // Pages for maintainers and their pictures are not packed, nor are the other pictures of the viewer.
      ...filesBelow('docs').filter((path) => !/^docs\/(?:internals|viewer)\//.test(path)),
      'docs/viewer/overview.png',
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'package.json',
      'prebuilds/SHA256SUMS',
    ].toSorted();
    // Declarations are those that the entry's reach; the compiler below says whether all are there.
    const files = ({ files }: Pack): string[] =>
      files
        .map(({ path }) => path)
        .filter((path) => !path.endsWith('.d.ts'))
        .toSorted();
    expect(files(withAddon)).toEqual([...expected, ADDON].toSorted());
    expect(files(withoutAddon)).toEqual(expected);
  });

  it('has the changes of this version, and those of earlier ones only in the repository', () => {
    const { version } = JSON.parse(textOf('package.json')) as { version: string };
    const sections = Array.from(
      textOf('CHANGELOG.md').matchAll(/^## \[(.+?)\]/gm),
      ([, name]) => name,
    );
    expect(sections.filter((name) => name !== 'Unreleased')).toEqual([version]);
  });

  it('is small enough', () => {
    // The addon of this machine has its symbols; without one the rest is what the package adds to it.
    expect(withoutAddon.unpackedSize).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  it('has types that every resolution of ES modules finds', () => {
    const program = join(root, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const args = [program, withAddon.filename, '--profile', 'esm-only', '--format', 'json'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
  });

  it('has the licence text of every package of which it holds code', () => {
    const lib = join(folder, 'copy/lib');
    const maps = readdirSync(lib).filter((name) => name.endsWith('.js.map'));
    const sources = maps.flatMap(
      (name) => JSON.parse(readFileSync(join(lib, name), 'utf8')).sources,
    );
    const bundled = sources.flatMap(
      (path: string) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
    );
    expect([...new Set(bundled)]).toEqual(['get-east-asian-width', 'js-yaml']);
    for (const name of readdirSync(join(lib, 'licences'))) {
      expect(textOf('docs/guarantees.md')).toContain(`| \`${name.replace('.txt', '')}\` |`);
    }
    const text = readFileSync(join(lib, 'licences/get-east-asian-width.txt'), 'utf8');
    expect(text).toContain('Permission is hereby granted');
  });

  it('has a literal that bundlers see for every addon that is shipped, and no other', () => {
    const bundle = readFileSync(join(folder, 'copy/lib/core.js'), 'utf8');
    // webpack stops at a file that is missing, unless it is told to leave the literal untouched.
    const literals =
      /new URL\(\s*\/\* webpackIgnore: true \*\/\s*"\.\.\/([^"]+)",\s*import\.meta\.url\s*\)/g;
    const named = [...bundle.matchAll(literals)].map(([, path]) => path);
    const shipped = SHIPPED_PLATFORMS.map((platform) => `prebuilds/${platform}/${PACKAGE}.node`);
    expect(named).toEqual(shipped);
    expect(shipped).toContain(ADDON);
  });

  it('needs no other package and runs nothing when it is installed', () => {
    const project = install(folder, 'clean', withAddon.filename);
    const installed = join(project, 'node_modules', PACKAGE);
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    const scripts = Object.keys(manifest.scripts ?? {});
    // npm runs these scripts for some installed packages, and warns of those that it does not run.
    const run = /^(?:pre|post)?(?:install|prepare|publish)$/;
    expect(scripts.filter((name) => run.test(name))).toEqual([]);
    expect(manifest.gypfile).toBe(false);
    for (const kind of ['dependencies', 'optionalDependencies', 'peerDependencies']) {
      expect(manifest[kind] ?? {}, kind).toEqual({});
    }
    expect(readdirSync(join(project, 'node_modules')).filter((n) => !n.startsWith('.'))).toEqual([
      PACKAGE,
    ]);
    // Sums of this addon alone: the tarball has no other.
    const addon = createHash('sha256').update(readFileSync(join(installed, ADDON)));
    expect(readFileSync(join(installed, 'prebuilds/SHA256SUMS'), 'utf8')).toBe(
      `${addon.digest('hex')}  ${ADDON.replace('prebuilds/', '')}\n`,
    );
    const installedFiles = readdirSync(installed, { recursive: true, withFileTypes: true });
    expect(installedFiles.filter((entry) => entry.isFile()).length).toBe(withAddon.files.length);
  });
});

describe('installed without network, compiler and Python', () => {
  it('maps a file, by import and by require', () => {
    const project = install(folder, 'mapping', withAddon.filename);
    expectSameAsPython(runChild(project, 'import.mjs'), 'mmap');
    expectSameAsPython(runChild(project, 'require.cjs'), 'mmap');
  });

  it('reads a remote checkpoint, by import and by require', () => {
    const project = install(folder, 'remote', withAddon.filename);
    expectSameAsPython(runChild(project, 'remote.mjs'), 'mmap');
    expectSameAsPython(runChild(project, 'remote.cjs'), 'mmap');
  });

  it('reads a PyTorch checkpoint, by import and by require', () => {
    const project = install(folder, 'convert', withAddon.filename);
    const checkpoint = join(root, 'test/fixtures/torch/zip-state-dict.pt');
    for (const script of ['convert.mjs', 'convert.cjs']) {
      expect(runChild(project, script, [checkpoint])).toEqual({
        verdict: 'safe',
        storage: 'mmap',
        names: 7,
        isOneClass: true,
      });
    }
  });

  it('has a program, under two names', () => {
    const project = install(folder, 'program', withAddon.filename);
    for (const name of ['safetensors', 'safetensors-mmap']) {
      const program = join(project, 'node_modules/.bin', name);
      const args = ['inspect', MODEL, '--json'];
      const { tensors } = JSON.parse(runNode(project, bareEnvironment(folder), program, ...args));
      expect(tensors.map((tensor: { name: string }) => tensor.name)).toContain(TENSOR);
    }
  });

  it('reads instead where found no addon for the platform', () => {
    const project = install(folder, 'reading', withoutAddon.filename);
    expectSameAsPython(runChild(project, 'import.mjs'), 'read');
    expectSameAsPython(runChild(project, 'require.cjs'), 'read');
  });

  it("compiles a stranger's strict TypeScript against its types", () => {
    const project = install(folder, 'types', withAddon.filename);
    addNodeTypes(project);
    // As an ES module and as a CommonJS one.
    const programs = ['consumer.mts', 'consumer.cts'];
    for (const program of programs) {
      copyFileSync(join(root, 'test/package/children/consumer.mts'), join(project, program));
    }
    compileStrictly(project, TSC, ...programs);
  });

  // So that a program may import one of them alone; test/deploy compiles such programs.
  it('brings the types of Node with every entry for Node', () => {
    const types = ['index', 'inspect', 'hub'].map((name) => join(folder, `copy/lib/${name}.d.ts`));
    for (const path of types) {
      expect(ts.preProcessFile(readFileSync(path, 'utf8')).typeReferenceDirectives).toEqual([
        expect.objectContaining({ fileName: 'node' }),
      ]);
    }
  });

  it('compiles a page against the types for browsers, without those of Node', () => {
    const project = install(folder, 'page', withAddon.filename);
    const page = 'consumer-browser.mts';
    copyFileSync(join(root, 'test/package/children', page), join(project, page));
    const compilerOptions = {
      ...{ noEmit: true, strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false },
      ...{ target: 'es2022', module: 'esnext', moduleResolution: 'bundler', types: [] },
      lib: ['es2023', 'esnext.disposable', 'dom'],
      customConditions: ['browser'],
    };
    const config = JSON.stringify({ compilerOptions, files: [page] });
    writeFileSync(join(project, 'tsconfig.json'), config);
    runNode(project, process.env, TSC, '-p', 'tsconfig.json');
  });
});

describe('the types', () => {
  let program: ts.Program;
  let index: ts.SourceFile;
  const lib = (): string => join(folder, 'copy/lib/');

  beforeAll(() => {
    const path = join(lib(), 'index.d.ts');
    program = ts.createProgram([path], {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      types: [],
    });
    index = program.getSourceFile(path) as ts.SourceFile;
  });

  it('leave out what is internal', () => {
    const ours = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(lib()));
    expect(ours.length).toBeGreaterThan(10);
    expect(ours.filter(({ text }) => text.includes('@internal'))).toEqual([]);
  });

  it('let nobody construct anything but errors', () => {
    const checker = program.getTypeChecker();
    const found = checker.getExportsOfModule(checker.getSymbolAtLocation(index) as ts.Symbol);
    const classes = found
      .map((symbol) =>
        symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
      )
      .flatMap(({ declarations = [] }) => declarations.filter(ts.isClassDeclaration));
    const notPublic = [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword];
    const isPrivate = (member: ts.ClassElement): boolean =>
      ts.isConstructorDeclaration(member) &&
      member.modifiers?.some(({ kind }) => notPublic.includes(kind)) === true;
    const named = (of: readonly ts.ClassDeclaration[]) => of.map(({ name }) => name?.text);
    const constructible = classes.filter(({ members }) => !members.some(isPrivate));
    expect(named(classes)).toContain('TensorOf');
    expect(named(constructible)).toContain('FormatError');
    expect(named(constructible).filter((name) => !name?.endsWith('Error'))).toEqual([]);
  });
});
