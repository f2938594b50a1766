/** Holds the tree to ARCHITECTURE.md: layers, arrows, one line per file, sizes. */
import { basename, posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import {
  filesBelow,
  type Import,
  importsOf,
  type Layer,
  parse,
  parseLayers,
  textOf,
  walk,
} from './source-tree.js';

const MAXIMUM_LINES = 300;

const page = textOf('ARCHITECTURE.md');
const layers = parseLayers(page);
const sources = filesBelow('src').filter((path) => path.endsWith('.ts'));

function stemOf(path: string): string {
  return path.replace(/^src\//, '').replace(/\.ts$/, '');
}

function holds(layer: Layer, stem: string): boolean {
  return layer.stems.some((entry) =>
    entry.endsWith('/*') ? stem.startsWith(entry.slice(0, -1)) : entry === stem,
  );
}

function layerOf(path: string): Layer | undefined {
  return layers.find((layer) => holds(layer, stemOf(path)));
}

/** The source file that a relative import means; undefined for packages and `node:` modules. */
function targetOf(path: string, { module }: Import): string | undefined {
  if (!module.startsWith('.')) return undefined;
  return posix.join(posix.dirname(path), module).replace(/\.js$/, '.ts');
}

/** Says why an import breaks the table, or nothing. */
function objection(path: string, found: Import): string | undefined {
  const layer = layerOf(path);
  if (layer === undefined) return `${path} is not in the layer table`;
  if (layer.name === '–') return undefined;
  const target = targetOf(path, found);
  if (target === undefined) {
    if (found.module.startsWith('node:') && layer.usesNode) return undefined;
    return `${path} (${layer.name}) imports '${found.module}'`;
  }
  const other = layerOf(target);
  if (other === undefined) return `${path} imports ${target}, which is not in the layer table`;
  if (other.name === layer.name || layer.uses.has(other.name)) return undefined;
  if (found.types?.length && found.types.every((name) => layer.types.has(name))) return undefined;
  return `${path} (${layer.name}) imports ${target} (${other.name})`;
}

describe('layers', () => {
  it('are found in the page', () => {
    expect(layers.map((layer) => layer.name)).toEqual(
      expect.arrayContaining(['L0', 'L1', 'L2', 'L3', 'L4', '–']),
    );
  });

  it('hold every source file exactly once, and nothing that is not there', () => {
    const stems = sources.map(stemOf);
    const counts = stems.map((stem) => [stem, layers.filter((layer) => holds(layer, stem)).length]);
    expect(counts.filter(([, count]) => count !== 1)).toEqual([]);
    const entries = layers.flatMap((layer) =>
      layer.stems.map((stem) => ({ ...layer, stems: [stem] })),
    );
    const stale = entries.filter((entry) => !stems.some((stem) => holds(entry, stem)));
    expect(stale.map((entry) => entry.stems[0])).toEqual([]);
  });

  it('are respected by every import', () => {
    const objections = sources.flatMap((path) =>
      importsOf(path).map((found) => objection(path, found)),
    );
    expect([...new Set(objections)].filter((text) => text !== undefined)).toEqual([]);
  });

  it('have no cycles, not even of types', () => {
    const targets = new Map(
      sources.map((path) => [path, importsOf(path).map((found) => targetOf(path, found))]),
    );
    const finished = new Set<string>();
    const visit = (path: string, trail: readonly string[]): void => {
      if (finished.has(path)) return;
      const start = trail.indexOf(path);
      if (start >= 0) expect.fail(`import cycle: ${[...trail.slice(start), path].join(' → ')}`);
      for (const target of targets.get(path) ?? []) if (target) visit(target, [...trail, path]);
      finished.add(path);
    };
    for (const path of sources) visit(path, []);
  });

  it('let only L2 import native, and only native load the addon', () => {
    const importers = sources.filter((path) =>
      importsOf(path).some((found) => targetOf(path, found) === 'src/native.ts'),
    );
    expect(importers.filter((path) => layerOf(path)?.name !== 'L2')).toEqual([]);
    const loaders = sources.filter((path) => {
      let loads = false;
      walk(parse(path), (node) => {
        if (ts.isIdentifier(node)) loads ||= /^(createRequire|dlopen)$/.test(node.text);
        if (ts.isStringLiteralLike(node)) loads ||= node.text.endsWith('.node');
      });
      return loads;
    });
    expect(loaders.filter((path) => path !== 'src/native.ts')).toEqual([]);
  });
});

describe('source files', () => {
  /** Uses of a global or of one of its members, as `console` or `process.exit`. */
  function uses(path: string, ...names: readonly string[]): string[] {
    const found: string[] = [];
    walk(parse(path), (node) => {
      const text = ts.isIdentifier(node)
        ? node.text
        : ts.isPropertyAccessExpression(node)
          ? node.getText()
          : '';
      if (names.includes(text)) found.push(`${path}: ${text}`);
    });
    return found;
  }

  it('of L1 do not know Buffer', () => {
    const pure = sources.filter((path) => ['L0', 'L1'].includes(layerOf(path)?.name ?? ''));
    expect(pure.length).toBeGreaterThan(3);
    expect(pure.flatMap((path) => uses(path, 'Buffer', 'process'))).toEqual([]);
  });

  it('write to no console and end no process, but for the command line', () => {
    const library = sources.filter((path) => !path.startsWith('src/cli/'));
    const forbidden = ['console', 'process.exit', 'process.argv'];
    expect(library.flatMap((path) => uses(path, ...forbidden))).toEqual([]);
  });

  it('index.ts only re-exports', () => {
    const others = parse('src/index.ts').statements.filter(
      (statement) => !ts.isExportDeclaration(statement) || statement.moduleSpecifier === undefined,
    );
    expect(others.map((statement) => statement.getText())).toEqual([]);
  });
});

describe('files', () => {
  it('of native and the helpers of tests each have their line in the page', () => {
    const helpers = filesBelow('test').filter((path) =>
      /^test\/(?:support\/)?[^/]+(?<!\.test)\.ts$/.test(path),
    );
    const missing = [...filesBelow('native'), ...helpers].filter(
      (path) => !page.includes(`\`${path}\``) && !page.includes(`\`${basename(path)}\``),
    );
    expect(missing).toEqual([]);
  });

  it(`stay below ${MAXIMUM_LINES} lines, or say why not`, () => {
    const code = ['src', 'native', 'test', 'benchmarks', 'scripts']
      .flatMap(filesBelow)
      .filter((path) => !path.startsWith('test/fixtures/'))
      .filter((path) => /\.(?:[cm]?[jt]s|py|cc|c|h|sh)$/.test(path));
    expect(code.length).toBeGreaterThan(10);
    const tooLong = code.filter((path) => {
      const text = textOf(path);
      return text.split('\n').length - 1 > MAXIMUM_LINES && !/File length: \S/.test(text);
    });
    expect(tooLong).toEqual([]);
  });
});
