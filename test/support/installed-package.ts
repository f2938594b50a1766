/**
 * The package as a stranger gets it: packed into a tarball, and installed from that into a project of
 * its own, without network and without compiler.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import process from 'node:process';
import { root, textOf } from './source-tree.js';

/** A packed package. */
export interface Pack {
  /** Path of the tarball. */
  readonly filename: string;
  /** Length of the tarball in bytes. */
  readonly size: number;
  /** Length of all files in bytes. */
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Runs a program of the running Node; the environment is exactly the given one. */
export function runNode(cwd: string, env: NodeJS.ProcessEnv, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0) throw new Error(`node ${args.join(' ')}: ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** npm's own program: the one that runs this test, or the one on the PATH. */
export function npmProgram(): string {
  const { npm_execpath: running, PATH = '' } = process.env;
  if (running?.endsWith('npm-cli.js')) return running;
  const found = PATH.split(delimiter)
    .map((entry) => join(entry, 'npm'))
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error('npm is not on the PATH');
  return realpathSync(found);
}

/**
 * A machine with node and npm and nothing else: no compiler, no make, no Python, no network. Its
 * programs and its home are in `folder`.
 */
export function bareEnvironment(folder: string): NodeJS.ProcessEnv {
  const bin = join(folder, 'bin');
  if (!existsSync(bin)) {
    mkdirSync(bin);
    symlinkSync(process.execPath, join(bin, 'node'));
    symlinkSync(npmProgram(), join(bin, 'npm'));
  }
  return {
    PATH: bin,
    HOME: folder,
    npm_config_cache: join(folder, 'empty-cache'),
    npm_config_registry: 'http://127.0.0.1:9/',
    npm_config_userconfig: join(folder, 'no-npmrc'),
    npm_config_globalconfig: join(folder, 'no-global-npmrc'),
  };
}

/** Packs a tree, which compiles it first; with `--ignore-scripts` as it is now. */
export function pack(tree: string, destination: string, ...options: readonly string[]): Pack {
  mkdirSync(destination);
  const args = ['pack', '--json', '--pack-destination', destination, ...options];
  const [packed] = JSON.parse(runNode(tree, process.env, npmProgram(), ...args)) as Pack[];
  if (packed === undefined) throw new Error('npm pack printed no package');
  return { ...packed, filename: join(destination, packed.filename) };
}

/** The first installation of each tarball. */
const installed = new Map<string, string>();

/**
 * Installs a tarball into `folder/name`, an empty project; returns the project's folder. npm does it once for
 * each tarball, next to which it stays: the others get copies of that project.
 */
export function install(folder: string, name: string, tarball: string): string {
  const project = join(folder, name);
  let first = installed.get(tarball);
  if (first === undefined) {
    const machine = dirname(tarball);
    // Test separate files processes may share the tarball.
    first = mkdtempSync(join(machine, 'installed-'));
    writeFileSync(join(first, 'package.json'), '{ "name": "stranger", "private": true }\n');
    const options = ['--offline', '--ignore-scripts=false', '--no-audit', '--no-fund'];
    // The lock file names it by a path within the project, which copies have, too.
    const own = basename(tarball);
    cpSync(tarball, join(first, own));
    runNode(first, bareEnvironment(machine), npmProgram(), 'install', ...options, `./${own}`);
    installed.set(tarball, first);
  }
  cpSync(first, project, { recursive: true, verbatimSymlinks: true });
  return project;
}

/** The specifiers of the package's entries: `safetensors-mmap`, `safetensors-mmap/inspect`, … */
export function entrySpecifiers(): string[] {
  const { name, exports } = JSON.parse(textOf('package.json'));
  return Object.keys(exports)
    .filter((key) => !key.endsWith('.json'))
    .map((key) => name + key.slice(1));
}

/** Gives a project the types of Node. Nothing in the project names them. */
export function addNodeTypes(project: string): void {
  const types = join(project, 'node_modules/@types');
  mkdirSync(types);
  symlinkSync(join(root, 'node_modules/@types/node'), join(types, 'node'));
}

/** Compiles a program of a project as strictly as TypeScript can, declarations of packages too. */
export function compileStrictly(project: string, compiler: string, ...programs: string[]): void {
  const flags = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'];
  const options = ['--noEmit', '--declaration', '--target', 'es2022', '--module', 'nodenext'];
  runNode(project, process.env, compiler, ...flags, ...options, ...programs);
}
