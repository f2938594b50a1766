/** Files of the repository, and the tables of ARCHITECTURE.md. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

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

/** One row of the page's table of folders. */
export interface Folder {
  /** Path below `src`, such as `header/json`. */
  readonly name: string;
  /** The module that it belongs to, such as `header`. */
  readonly module: string;
  /** Folders and entry points that may be imported. */
  readonly uses: ReadonlySet<string>;
  /** Packages that may be imported; they are bundled. */
  readonly packages: ReadonlySet<string>;
  /** Whether its files may import `node:` modules, themselves or by way of others. */
  readonly usesNode: boolean;
}

const MODULE_ROW = /^\| `([\w-]+)` \| [^|]+ \|$/gm;
const FOLDER_ROW = /^\| `([\w/-]+)\/` \| [^|]+ \| ([^|]*) \| (yes|no) \|$/gm;
const STEP = /^([a-z][\w/-]*(?:, [a-z][\w/-]*)*) {2}/gm;

/** The modules of the table `| module | purpose |`, in its order. */
export function modulesOf(page: string): string[] {
  return Array.from(page.matchAll(MODULE_ROW), ([, name = '']) => name);
}

/**
 * Parses the table `| folder | purpose | imports from | node: |`. Packages are those that are installed for
 * development.
 */
export function foldersOf(page: string): Folder[] {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return Array.from(page.matchAll(FOLDER_ROW), ([, name = '', imports = '', node]) => {
    const [packages, uses] = [new Set<string>(), new Set<string>()];
    for (const [, other = ''] of imports.matchAll(/`([^`]+)`/g)) {
      (other in devDependencies ? packages : uses).add(other);
    }
    return { name, module: name.replace(/\/.*/, ''), uses, packages, usesNode: node === 'yes' };
  });
}

/** The files that the page's ways of data lead through, without endings. */
export function stepsOf(page: string): string[] {
  const blocks = page.matchAll(/^```(?:\n|mermaid\n)(.*?)^```$/gms);
  return Array.from(blocks, ([, text = '']) =>
    Array.from(text.matchAll(STEP), ([, names = '']) => names.split(', ')),
  ).flat(2);
}
