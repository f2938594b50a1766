/** What the architecture test knows about the tree: files, imports, and the page's table of rooms. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** Package root, with a separator at the end. */
export const root: string = fileURLToPath(new URL('../..', import.meta.url));

const NOT_OURS = new Set(['.git', 'node_modules', 'build', 'lib', '__pycache__']);

/** Files below a folder of the package, as paths from the root with `/`; [] when it is absent. */
export function filesBelow(folder: string): string[] {
  const found: string[] = [];
  const visit = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (NOT_OURS.has(entry.name) || entry.name.endsWith('.node')) continue;
      const child = join(path, entry.name);
      if (entry.isDirectory() && !isHidden(entry.name)) visit(child);
      else if (entry.isFile()) found.push(relative(root, child).split(sep).join('/'));
    }
  };
  try {
    visit(join(root, folder));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return found.sort();
}

/** Folders of tools (.git, .venv) are not ours; the folders of continuous integration are. */
function isHidden(name: string): boolean {
  return name.startsWith('.') && name !== '.ci' && name !== '.github';
}

/** Text of a file of the package. */
export function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** One import or re-export of a module. */
export interface Import {
  /** The module as written. */
  readonly module: string;
  /** Names, when nothing but types is taken; otherwise null. */
  readonly types: readonly string[] | null;
}

/** Parses a source file; comments and strings cannot be mistaken for code in what is returned. */
export function parse(path: string): ts.SourceFile {
  return ts.createSourceFile(path, textOf(path), ts.ScriptTarget.ES2022, true);
}

/** Calls the visitor for every node of the file, outermost first. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

/** Static and dynamic imports and re-exports of a source file. */
export function importsOf(path: string): Import[] {
  const imports: Import[] = [];
  walk(parse(path), (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
      const { moduleSpecifier } = node;
      if (moduleSpecifier === undefined || !ts.isStringLiteral(moduleSpecifier)) return;
      imports.push({ module: moduleSpecifier.text, types: typeNamesOf(node) });
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [module] = node.arguments;
      const text = module !== undefined && ts.isStringLiteralLike(module) ? module.text : '';
      imports.push({ module: text, types: null });
    } else if (ts.isImportTypeNode(node)) {
      imports.push({ module: node.argument.getText().slice(1, -1), types: [] });
    }
  });
  return imports;
}

function typeNamesOf(node: ts.ImportDeclaration | ts.ExportDeclaration): string[] | null {
  const clause = ts.isImportDeclaration(node) ? node.importClause : node;
  const named = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : node.exportClause;
  if (clause === undefined || named === undefined) return null;
  if (!ts.isNamedImports(named) && !ts.isNamedExports(named)) return null;
  const isTypeOnly = ts.isImportClause(clause)
    ? clause.phaseModifier === ts.SyntaxKind.TypeKeyword
    : clause.isTypeOnly;
  if (!isTypeOnly && !named.elements.every((element) => element.isTypeOnly)) return null;
  return named.elements.map((element) => (element.propertyName ?? element.name).text);
}

/** One row of the page's table of rooms. */
export interface Room {
  /** Folder below `src`, such as `checkpoint/write`. */
  readonly name: string;
  /** Rooms that may be imported besides its own. */
  readonly uses: ReadonlySet<string>;
  /** Packages that may be imported; they are bundled. */
  readonly packages: ReadonlySet<string>;
  /** Whether files of the room, all or some, may import `node:` modules. */
  readonly usesNode: boolean;
  /** Files, without ending, that the column about `node:` modules names. */
  readonly exceptions: ReadonlySet<string>;
  /** Whether a file, without ending, may import `node:` modules. */
  mayUseNode(stem: string): boolean;
}

const ROOM_ROW = /^\| `([\w/-]+)\/` \| [^|]+ \| ([^|]*) \| ([^|]*) \|$/gm;
const ARROW = /^ {2}([\w/-]+) --> ([\w/.-]+)$/gm;

function quoted(text: string): Set<string> {
  return new Set(Array.from(text.matchAll(/`([^`]+)`/g), ([, name = '']) => name));
}

/**
 * Parses the table `| room | what it is for | imports from | node: modules |`. The last column says
 * `no`, `yes`, or `yes, but not` or `only` and files of the room. Packages are those that are installed for
 * development.
 */
export function roomsOf(page: string): Room[] {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return Array.from(page.matchAll(ROOM_ROW), ([, name = '', uses = '', node = '']) => {
    const exceptions = quoted(node);
    const isRule = node.startsWith('yes');
    const usesNode = isRule || node.startsWith('only');
    const mayUseNode = (stem: string): boolean => usesNode && exceptions.has(stem) !== isRule;
    const [packages, used] = [new Set<string>(), new Set<string>()];
    for (const other of quoted(uses)) (other in devDependencies ? packages : used).add(other);
    return { name, uses: used, packages, usesNode, exceptions, mayUseNode };
  });
}

/** The arrows of the page's graph: what a room imports, without what follows from other arrows. */
export function arrowsOf(page: string): [from: string, to: string][] {
  return Array.from(page.matchAll(ARROW), ([, from = '', to = '']) => [from, to]);
}
