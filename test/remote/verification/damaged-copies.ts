/** The damaged copies of `fixtures/verify-hub.json`: a repository, and operations on a copy of it. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

/** One change of a copy. */
export type Operation =
  | readonly ['flip', path: string, at: number]
  | readonly ['write', path: string, base64: string]
  | readonly ['truncate', path: string, byteLength: number]
  | readonly ['remove', path: string]
  | readonly ['rename', from: string, to: string]
  | readonly ['link', path: string, target: string]
  | readonly ['folder', path: string]
  | readonly ['clear'];

interface DamagedCopy {
  readonly name: string;
  readonly ops: readonly Operation[];
  /** The report of the Hub's Python library. */
  readonly python: {
    readonly checked: number;
    readonly mismatches: readonly {
      readonly path: string;
      readonly expected: string;
      readonly actual: string;
      readonly algorithm: string;
    }[];
    readonly missing: readonly string[];
    readonly extra: readonly string[];
  };
}

interface Fixture {
  /** The files of the repository, in base64. */
  readonly files: Readonly<Record<string, string>>;
  readonly cases: readonly DamagedCopy[];
}

const { files, cases }: Fixture = JSON.parse(
  readFileSync(join(root, 'test/fixtures/verify-hub.json'), 'utf8'),
);

export const DAMAGED_COPIES: readonly DamagedCopy[] = cases;

/** The files of the repository by path. */
export const REPOSITORY_FILES: Readonly<Record<string, Uint8Array>> = Object.fromEntries(
  Object.entries(files).map(([path, text]) => [path, Buffer.from(text, 'base64')]),
);

/** Writes the files of the repository into a new folder. */
export function copyOfRepository(name = 'copy'): string {
  const folder = temporaryPath(name);
  mkdirSync(folder, { recursive: true });
  for (const [path, bytes] of Object.entries(REPOSITORY_FILES)) write(join(folder, path), bytes);
  return folder;
}

function write(path: string, bytes: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
}

/** Changes a copy. */
export function damage(folder: string, operations: readonly Operation[]): void {
  for (const [kind, name = '', value] of operations) {
    const path = join(folder, String(name));
    if (kind === 'flip') {
      const bytes = readFileSync(path);
      const at = value < 0 ? bytes.length + value : value;
      bytes[at] = (bytes[at] as number) ^ 1;
      writeFileSync(path, bytes);
    } else if (kind === 'write') write(path, Buffer.from(value, 'base64'));
    else if (kind === 'truncate') truncateSync(path, value);
    else if (kind === 'remove') rmSync(path, { recursive: true });
    else if (kind === 'rename') renameSync(path, join(folder, value));
    else if (kind === 'link') symlinkSync(value, path);
    else if (kind === 'folder') mkdirSync(path);
    else {
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
    }
  }
}

/** A copy of a folder, links as they are. */
export function copied(folder: string): string {
  const target = temporaryPath('again');
  if (existsSync(target)) rmSync(target, { recursive: true });
  cpSync(folder, target, { recursive: true, verbatimSymlinks: true });
  return target;
}
