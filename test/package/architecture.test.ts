/** Holds the tree to ARCHITECTURE.md: layers in a line, imports between folders, paths of data. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';
import process from 'node:process';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import {
  type Folder,
  filesBelow,
  foldersOf,
  modulesOf,
  root,
  stepsOf,
  textOf,
} from '../support/source-tree.js';
import { type Import, importsOf, parse, walk } from '../support/syntax.js';

const page = textOf('ARCHITECTURE.md');
const modules = modulesOf(page);
const folders = new Map(foldersOf(page).map((folder) => [folder.name, folder]));
const sources = filesBelow('src').filter((path) => path.endsWith('.ts'));
const entries = sources.filter((path) => dirname(path) === 'src');
/** Has the functions of browsers that need Node: they throw. */
const BROWSER_RUNTIME = 'src/runtime-browser.ts';
const inFolders = sources.filter((path) => !entries.includes(path));

/** The folder of a file; of an entry point its name, as the table has it where a folder is built on it. */
function folderNameOf(path: string): string {
  return entries.includes(path) ? basename(path) : dirname(path).replace(/^src\/?/, '');
}

function folderOf(path: string): Folder {
  const folder = folders.get(folderNameOf(path));
  if (folder === undefined) throw new Error(`the folder of ${path} is not in the table`);
  return folder;
}

function isFreeOfNode(path: string): boolean {
  return !folderOf(path).usesNode;
}

/** The source file that a relative import means; undefined for packages and `node:` modules. */
function targetOf(path: string, { module }: Import): string | undefined {
  if (!module.startsWith('.')) return undefined;
  return posix.join(posix.dirname(path), module).replace(/\.js$/, '.ts');
}

/** Says why an import breaks the table, or nothing. */
function objection(path: string, found: Import): string | undefined {
  const folder = folderOf(path);
  const target = targetOf(path, found);
  if (target === undefined) {
    const isBuiltin = found.module.startsWith('node:') && folder.usesNode;
    if (isBuiltin || folder.packages.has(found.module)) return undefined;
    return `${path} imports '${found.module}'`;
  }
  const other = folderNameOf(target);
  if (other !== folder.name && !folder.uses.has(other)) return `${path} imports ${target}`;
  if (found.types === null && isFreeOfNode(path) && !isFreeOfNode(target)) {
    return `${path} is free of node:, ${target} is not`;
  }
  return undefined;
}

describe('modules', () => {
  it('are the top folders of src, each with a row and in a line', () => {
    const found = new Set(inFolders.map((path) => path.split('/')[1]));
    expect(modules.toSorted()).toEqual([...found].toSorted());
    expect(/^ {2}(.* --> .*)$/m.exec(page)?.[1]?.split(' --> ')).toEqual(modules);
  });

  it('have their folders together, in the order of the modules', () => {
    const order = [...folders.values()].map(({ module }) => modules.indexOf(module));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  });
});

describe('folders', () => {
  it('are those of src', () => {
    const found = new Set(inFolders.map(folderNameOf));
    expect([...folders.keys()].toSorted()).toEqual([...found].toSorted());
  });

  it('import only from those above them in the table', () => {
    // Entry points re-export what stands above; only the command line is built on them.
    const above = new Set<string>();
    for (const { name, module, uses } of folders.values()) {
      if (module === 'cli') for (const entry of entries) above.add(folderNameOf(entry));
      const below = [...uses].filter((other) => !above.has(other));
      expect(below, name).toEqual([]);
      above.add(name);
    }
  });

  it('respect the table with every import', () => {
    const objections = inFolders.flatMap((path) =>
      importsOf(path).map((found) => objection(path, found)),
    );
    expect([...new Set(objections)].filter((text) => text !== undefined)).toEqual([]);
  });

  it('are allowed nothing that they do not use', () => {
    const used = new Set(
      inFolders.flatMap((path) =>
        importsOf(path).map((found) => {
          const target = targetOf(path, found);
          return `${folderNameOf(path)} ${target === undefined ? found.module : folderNameOf(target)}`;
        }),
      ),
    );
    const allowed = [...folders.values()].flatMap(({ name, uses, packages }) =>
      [...uses, ...packages].map((other) => `${name} ${other}`),
    );
    expect(allowed.filter((text) => !used.has(text))).toEqual([]);
  });

  it('are said to be free of node: when they are', () => {
    const free = new Map<string, boolean>();
    const isFree = (path: string): boolean => {
      const known = free.get(path);
      if (known !== undefined) return known;
      free.set(path, true);
      const found = importsOf(path).filter(({ types }) => types === null);
      const targets = found.map((one) => targetOf(path, one) ?? one.module);
      const result = targets.every((target) =>
        sources.includes(target) ? isFree(target) : !target.startsWith('node:'),
      );
      free.set(path, result);
      return result;
    };
    const onNode = new Set(inFolders.filter((path) => !isFree(path)).map(folderNameOf));
    const said = [...folders.values()].filter(({ usesNode }) => usesNode).map(({ name }) => name);
    expect(said.toSorted()).toEqual([...onNode].toSorted());
  });

  /** The sources whose syntax tree has a matching node. */
  function sourcesWith(isWanted: (node: ts.Node) => boolean): string[] {
    return sources.filter((path) => {
      let found = false;
      walk(parse(path), (node) => {
        found ||= isWanted(node);
      });
      return found;
    });
  }

  it('leave loading the addon to one file, and knowing where it is to another', () => {
    const loaders = sourcesWith(
      (node) => ts.isIdentifier(node) && /^(createRequire|dlopen)$/.test(node.text),
    );
    const locations = sourcesWith(
      (node) => ts.isStringLiteralLike(node) && node.text.endsWith('.node'),
    );
    expect(loaders).toEqual(['src/platform/addon/load.ts']);
    expect(locations).toEqual(['src/platform/addon/location.ts']);
  });
});

describe('files import without cycles', () => {
  const scripts = (folder: string): string[] =>
    filesBelow(folder).filter((path) => /\.(?:tsx?|mts|mjs)$/.test(path));

  it.each(['src', 'viewer', 'test/support', 'benchmarks'])('in %s, types included', (folder) => {
    const files = scripts(folder);
    const found = files.map((path) => [path, importedFiles(path, files)] as const);
    expect(found.flatMap(([, imported]) => imported).length).toBeGreaterThan(20);
    expect(firstCycle(new Map(found))).toBeNull();
  });

  it('in native: a header and its implementations are one', () => {
    const files = filesBelow('native').filter((path) => /\.(?:h|cc)$/.test(path));
    const included = new Map<string, string[]>();
    for (const path of files) {
      const names = Array.from(
        textOf(path).matchAll(/^#include "(.+)"$/gm),
        ([, name = '']) => name,
      );
      const units = names.map(unitOf).filter((unit) => unit !== unitOf(path));
      included.set(unitOf(path), [...(included.get(unitOf(path)) ?? []), ...units]);
    }
    expect([...included.values()].flat().length).toBeGreaterThan(50);
    expect(firstCycle(included)).toBeNull();
  });
});

/** The files among these that a file imports. */
function importedFiles(path: string, files: readonly string[]): string[] {
  return importsOf(path).flatMap(({ module }) => {
    if (!module.startsWith('.')) return [];
    const target = posix.join(posix.dirname(path), module);
    const named = [target, target.replace(/js$/, 'ts'), target.replace(/js$/, 'tsx')];
    return named.filter((name) => files.includes(name)).slice(0, 1);
  });
}

/** The name that a native header shares with its implementations. */
function unitOf(path: string): string {
  return basename(path).replace(/(?:_(?:linux|posix|windows|none|avx2|neon))?\.(?:h|cc)$/, '');
}

/** The first cycle of a graph, from a node to itself; null without one. */
function firstCycle(targets: ReadonlyMap<string, readonly string[]>): string | null {
  const finished = new Set<string>();
  const visit = (node: string, trail: readonly string[]): string | null => {
    if (finished.has(node)) return null;
    const start = trail.indexOf(node);
    if (start >= 0) return [...trail.slice(start), node].join(' → ');
    for (const target of targets.get(node) ?? []) {
      const cycle = visit(target, [...trail, node]);
      if (cycle !== null) return cycle;
    }
    finished.add(node);
    return null;
  };
  for (const node of targets.keys()) {
    const cycle = visit(node, []);
    if (cycle !== null) return cycle;
  }
  return null;
}

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

  it('without node: do not know Buffer and process', () => {
    const pure = inFolders.filter(isFreeOfNode);
    expect(pure.length).toBeGreaterThan(40);
    expect(pure.flatMap((path) => uses(path, 'Buffer', 'process'))).toEqual([]);
  });

  it('know by `instanceof` only classes of their own: others differ from realm to realm', () => {
    const own = new Set<string | undefined>();
    const known: string[] = [];
    for (const path of sources) {
      walk(parse(path), (node) => {
        if (ts.isClassDeclaration(node)) own.add(node.name?.text);
        const isCheck =
          ts.isBinaryExpression(node) &&
          node.operatorToken.kind === ts.SyntaxKind.InstanceOfKeyword;
        if (isCheck) known.push(node.right.getText());
      });
    }
    expect(known.length).toBeGreaterThan(0);
    expect(known.filter((name) => !own.has(name))).toEqual([]);
  });

  it('write to no console and end no process, but for the command line', () => {
    const library = sources.filter((path) => !path.startsWith('src/cli/'));
    const forbidden = ['console', 'process.exit', 'process.argv'];
    expect(library.flatMap((path) => uses(path, ...forbidden))).toEqual([]);
  });

  it('of entry points only re-export', () => {
    const others = entries.flatMap((path) =>
      path === BROWSER_RUNTIME
        ? []
        : parse(path).statements.filter(
            (statement) =>
              !ts.isExportDeclaration(statement) || statement.moduleSpecifier === undefined,
          ),
    );
    expect(others.map((statement) => statement.getText())).toEqual([]);
    expect(entries.filter((path) => !page.includes(`\`${basename(path)}\``))).toEqual([]);
  });

  it('that browsers get have no node: modules', () => {
    const reached = new Set<string>();
    const visit = (path: string): void => {
      if (reached.has(path)) return;
      reached.add(path);
      if (path.startsWith('node:')) return;
      for (const found of importsOf(path)) {
        // `#runtime` is another file there, which is visited, too.
        if (found.types !== null || found.module === '#runtime') continue;
        visit(targetOf(path, found) ?? found.module);
      }
    };
    for (const path of ['src/index.ts', 'src/hub.ts', 'src/inspect.ts', BROWSER_RUNTIME])
      visit(path);
    expect(reached.size).toBeGreaterThan(30);
    expect([...reached].filter((path) => path.startsWith('node:'))).toEqual([]);
  });
});

describe('the viewer', () => {
  it('imports from the package what browsers get, and nothing of `src`', () => {
    const files = filesBelow('viewer').filter((path) => /\.tsx?$/.test(path));
    expect(files.length).toBeGreaterThan(40);
    const isOutside = (path: string, module: string): boolean =>
      module.startsWith('.') && !posix.join(posix.dirname(path), module).startsWith('viewer/');
    // These are bundled.
    const packages = ['preact', 'preact/hooks'];
    const isKnown = (module: string): boolean =>
      packages.includes(module) || isBrowserEntry(module.replace('safetensors-mmap', '.'));
    const others = files.flatMap((path) =>
      importsOf(path)
        .filter(({ module }) =>
          module.startsWith('.') ? isOutside(path, module) : !isKnown(module),
        )
        .map(({ module }) => `${path}: ${module}`),
    );
    expect(others).toEqual([]);
  });
});

/** Whether the package has such an entry for browsers. */
function isBrowserEntry(entry: string): boolean {
  const { exports } = JSON.parse(textOf('package.json'));
  return exports[entry]?.browser !== undefined;
}

describe('the page', () => {
  it('leads through files that are there', () => {
    const steps = stepsOf(page);
    expect(steps.length).toBeGreaterThan(50);
    expect(steps.filter((step) => !sources.includes(`src/${step}.ts`))).toEqual([]);
  });

  it('names only constants, types and functions that are there', () => {
    const [, section = ''] = page.split('## Where to add\n');
    const code = [...sources, ...filesBelow('native')].map(textOf).join('\n');
    const names = Array.from(section.matchAll(/`([A-Za-z]*[A-Z]\w*)`/g), ([, name = '']) => name);
    expect(names.length).toBeGreaterThan(6);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
  });

  it('names only files and folders that are there', () => {
    const text = page.replace(/^```.*?^```$/gms, '').replace(/^\|.*$/gm, '');
    const names = Array.from(text.matchAll(/`([\w-]+\/[\w./-]+)`/g), ([, name = '']) => name);
    const there = ['', '.ts', '.h'].flatMap((end) => names.filter((name) => isThere(name + end)));
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !there.includes(name))).toEqual([]);
  });
});

/** Whether the package or `src` has such a file or folder. */
function isThere(name: string): boolean {
  return [name, `src/${name}`].some((path) => existsSync(join(root, path)));
}

describe('files', () => {
  it('begin with a sentence that `node scripts/map.mjs` prints', () => {
    for (const folder of ['src', 'native', 'scripts', 'benchmarks', 'test']) {
      const map = execFileSync(process.execPath, ['scripts/map.mjs', folder], {
        cwd: root,
        encoding: 'utf8',
      });
      const rows = map.split('\n').filter((line) => line.startsWith('  '));
      expect(rows.length, folder).toBeGreaterThan(10);
      expect(
        rows.filter((row) => !/^ {2}\S+ +\S/.test(row)),
        folder,
      ).toEqual([]);
    }
  });

  it('of tests lie in the folders of what they test', () => {
    const others = [
      'package',
      'benchmarks',
      'deploy',
      'examples',
      'soak',
      'fuzz',
      'sanitize',
      'mutation',
      'site',
      'faults',
      'viewer',
      'viewer/browser',
    ];
    const found = filesBelow('test')
      .filter((path) => path.endsWith('.test.ts'))
      .map((path) => dirname(path).replace(/^test\/?/, ''));
    const unknown = found.filter((folder) => !folders.has(folder) && !others.includes(folder));
    expect([...new Set(unknown)]).toEqual([]);
  });
});
