/** Holds the tree to ARCHITECTURE.md: rooms, arrows, one line per file, sizes. */
import { basename, dirname, posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import {
  arrowsOf,
  filesBelow,
  type Import,
  importsOf,
  parse,
  type Room,
  roomsOf,
  textOf,
  walk,
} from '../support/source-tree.js';

const MAXIMUM_LINES = 400;

const page = textOf('ARCHITECTURE.md');
const rooms = new Map(roomsOf(page).map((room) => [room.name, room]));
const sources = filesBelow('src').filter((path) => path.endsWith('.ts'));
const entries = sources.filter((path) => dirname(path) === 'src');
const inRooms = sources.filter((path) => !entries.includes(path));

/** The room of a file; of an entry point its name, as the table has it where a room is built on it. */
function roomNameOf(path: string): string {
  return entries.includes(path) ? basename(path) : dirname(path).replace(/^src\/?/, '');
}

function roomOf(path: string): Room {
  const room = rooms.get(roomNameOf(path));
  if (room === undefined) throw new Error(`the room of ${path} is not in the table`);
  return room;
}

function isFreeOfNode(path: string): boolean {
  return !roomOf(path).mayUseNode(basename(path, '.ts'));
}

/** The source file that a relative import means; undefined for packages and `node:` modules. */
function targetOf(path: string, { module }: Import): string | undefined {
  if (!module.startsWith('.')) return undefined;
  return posix.join(posix.dirname(path), module).replace(/\.js$/, '.ts');
}

/** Says why an import breaks the table, or nothing. */
function objection(path: string, found: Import): string | undefined {
  const room = roomOf(path);
  const target = targetOf(path, found);
  if (target === undefined) {
    const isBuiltin = found.module.startsWith('node:') && !isFreeOfNode(path);
    if (isBuiltin || room.packages.has(found.module)) return undefined;
    return `${path} imports '${found.module}'`;
  }
  const other = roomNameOf(target);
  if (other !== room.name && !room.uses.has(other)) return `${path} imports ${target}`;
  if (found.types === null && isFreeOfNode(path) && !isFreeOfNode(target)) {
    return `${path} is free of node:, ${target} is not`;
  }
  return undefined;
}

describe('rooms', () => {
  it('are the folders of src', () => {
    const folders = new Set(inRooms.map(roomNameOf));
    expect([...rooms.keys()].toSorted()).toEqual([...folders].toSorted());
    expect(rooms.size).toBeGreaterThan(10);
  });

  it('import only from those above them in the table', () => {
    // Entry points only re-export; rooms that are built on them are below all others.
    const above = new Set(entries.map(roomNameOf));
    for (const { name, uses } of rooms.values()) {
      expect(
        [...uses].filter((other) => !above.has(other)),
        name,
      ).toEqual([]);
      above.add(name);
    }
  });

  it('respect the table with every import', () => {
    const objections = inRooms.flatMap((path) =>
      importsOf(path).map((found) => objection(path, found)),
    );
    expect([...new Set(objections)].filter((text) => text !== undefined)).toEqual([]);
  });

  it('are allowed nothing that they do not use', () => {
    const used = new Set(
      inRooms.flatMap((path) =>
        importsOf(path).map((found) => {
          const target = targetOf(path, found);
          const other = found.module.startsWith('node:') ? 'node:' : found.module;
          return `${roomNameOf(path)} ${target === undefined ? other : roomNameOf(target)}`;
        }),
      ),
    );
    const allowed = [...rooms.values()].flatMap(({ name, uses, packages, usesNode }) =>
      [...uses, ...packages, ...(usesNode ? ['node:'] : [])].map((other) => `${name} ${other}`),
    );
    expect(allowed.filter((text) => !used.has(text))).toEqual([]);
    const named = [...rooms.values()].flatMap(({ name, exceptions }) =>
      [...exceptions].map((stem) => `src/${name}/${stem}.ts`),
    );
    expect(named.filter((path) => !sources.includes(path))).toEqual([]);
  });

  it('have a graph that says the same as the table', () => {
    const reached = (from: string): Set<string> => {
      const next = arrowsOf(page).flatMap(([room, other]) => (room === from ? [other] : []));
      return new Set(next.flatMap((other) => [other, ...reached(other)]));
    };
    for (const [from, to] of arrowsOf(page)) {
      expect([...(rooms.get(from)?.uses ?? [])], from).toContain(to);
    }
    for (const { name, uses } of rooms.values()) {
      expect([...reached(name)], name).toEqual(expect.arrayContaining([...uses]));
    }
  });

  it('have no cycles of files, not even of types', () => {
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

  /** The sources that have a node of the syntax tree that is as asked. */
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
    expect(loaders).toEqual(['src/addon/load.ts']);
    expect(locations).toEqual(['src/addon/location.ts']);
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

  it('without node: do not know Buffer and process', () => {
    const pure = inRooms.filter(isFreeOfNode);
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

  it('of entry points only re-export, and each has its row in the table', () => {
    const others = entries.flatMap((path) =>
      parse(path).statements.filter(
        (statement) =>
          !ts.isExportDeclaration(statement) || statement.moduleSpecifier === undefined,
      ),
    );
    expect(others.map((statement) => statement.getText())).toEqual([]);
    const rows = Array.from(page.matchAll(/^\| `([\w-]+\.ts)` \| [^|]+ \| all rooms/gm));
    expect(rows.map(([, file]) => `src/${file}`).toSorted()).toEqual(entries.toSorted());
  });

  it('that browsers get have no node: modules', () => {
    const reached = new Set<string>();
    const visit = (path: string): void => {
      if (reached.has(path)) return;
      reached.add(path);
      for (const found of importsOf(path)) {
        if (found.types !== null) continue;
        visit(targetOf(path, found) ?? found.module);
      }
    };
    visit('src/remote-browser.ts');
    expect(reached.size).toBeGreaterThan(30);
    expect([...reached].filter((path) => path.startsWith('node:'))).toEqual([]);
  });
});

describe('files', () => {
  it('of src each have their line below the heading of their room, and nothing else has', () => {
    const sections = page.split(/^### /m).slice(1);
    const listed = sections.flatMap((section) => {
      const [, room] = /^`([\w/-]+)\/`\n/.exec(section) ?? [];
      const files = section.split(/^## /m)[0]?.matchAll(/^\| `([\w-]+\.ts)` \| \S/gm) ?? [];
      return Array.from(files, ([, file]) => `src/${room}/${file}`);
    });
    expect(listed.toSorted()).toEqual(inRooms.toSorted());
  });

  it('of native and the helpers of tests each have their line in the page, and nothing else has', () => {
    const helpers = filesBelow('test').filter(
      (path) => /(?<!\.test)\.ts$/.test(path) && !path.startsWith('test/fixtures/'),
    );
    expect(helpers.length).toBeGreaterThan(5);
    const [, native = ''] = page.split(/^## native$/m);
    const rows = native.split(/^## /m)[0]?.match(/^\| `.*?(?= \| )/gm) ?? [];
    const listed = [
      ...rows.flatMap((row) =>
        Array.from(row.matchAll(/`([^`]+)`/g), ([, file]) => `native/${file}`),
      ),
      ...Array.from(page.matchAll(/^\| `(test\/[\w/-]+\.ts)` \| \S/gm), ([, path]) => path),
    ];
    expect(listed.toSorted()).toEqual([...filesBelow('native'), ...helpers].toSorted());
  });

  it('of tests lie in the rooms of what they test', () => {
    const others = [
      'package',
      'benchmarks',
      'deploy',
      'soak',
      'fuzz',
      'sanitize',
      'mutation',
      'faults',
    ];
    const folders = filesBelow('test')
      .filter((path) => path.endsWith('.test.ts'))
      .map((path) => dirname(path).replace(/^test\/?/, ''));
    const unknown = folders.filter((folder) => !rooms.has(folder) && !others.includes(folder));
    expect([...new Set(unknown)]).toEqual([]);
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
