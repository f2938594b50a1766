/**
 * Programs that use the package, built by the recipes of docs/bundlers.md, and run in a place that has only the
 * shipped files.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { readDescription } from '../file/model-description.js';
import { bareEnvironment, install } from './installed-package.js';
import { root, textOf } from './source-tree.js';

const PAGE = 'docs/bundlers.md';
const CHILDREN = join(root, 'test/package/children');
const DESCRIPTION = join(root, 'test/fixtures/models/bert-f32.json');

/** The file that programs open, and the tensor that they read: their two arguments. */
export const MODEL: string = join(root, 'test/fixtures/models/bert-f32.safetensors');
export const TENSOR = 'embeddings.LayerNorm.weight';

/** The output of a program. */
export interface Output {
  readonly stdout: string;
  readonly stderr: string;
}

/** The commands below a heading of the page: the given one of its blocks of a language. */
export function recipe(heading: string, block = 0, language = 'sh'): string {
  const [, section = ''] = textOf(PAGE).split(`\n## ${heading}\n`);
  const [text = ''] = section.split('\n## ');
  const fenced = text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm);
  const blocks = Array.from(fenced).filter(([, found]) => found === language);
  const commands = blocks[block]?.[2];
  if (commands === undefined) throw new Error(`${PAGE} has no commands below "${heading}"`);
  return commands;
}

/** The page's first lines of a program, which name the addon in a folder such as `__dirname`. */
export function firstLines(folder: string): string {
  const line = `process.env.SAFETENSORS_MMAP_ADDON ??= join(${folder}, 'safetensors-mmap.node');`;
  if (!textOf(PAGE).includes(`\`${line}\``)) throw new Error(`${PAGE} does not show ${line}`);
  return `import { dirname, join } from 'node:path';\n${line}\n`;
}

/** A project that has the package installed, in a separate folder below `parent`, for one test. */
export class App {
  readonly folder: string;
  /** Holds the project's folder, and the programs of a machine that has only node and npm. */
  readonly #machine: string;
  readonly #tools: readonly string[];

  /** `tools` are folders of programs. */
  constructor(parent: string, tarball: string, tools: readonly string[]) {
    this.#machine = mkdtempSync(join(parent, 'app-'));
    onTestFinished(() => this.#remove());
    this.folder = install(this.#machine, 'app', tarball);
    this.#tools = tools;
    const npx = join(String(bareEnvironment(this.#machine)['PATH']), 'npx');
    writeFileSync(npx, '#!/bin/sh\nexec "$@"\n');
    chmodSync(npx, 0o755);
  }

  #remove(): void {
    rmSync(this.#machine, { recursive: true, force: true });
  }

  /** Writes a file of the project. */
  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  /** Writes `app.mjs`, which reads a tensor, and `app.cjs`, which does the same without first lines. */
  writePrograms(firstLines = ''): void {
    this.write('app.mjs', firstLines + readFileSync(join(CHILDREN, 'import.mjs'), 'utf8'));
    this.write('app.cjs', readFileSync(join(CHILDREN, 'require.cjs'), 'utf8'));
  }

  /** Runs commands of a shell in the project. */
  build(commands: string): void {
    const { PATH: bin, ...env } = bareEnvironment(this.#machine);
    const PATH = [bin, ...this.#tools, '/usr/bin', '/bin'].join(delimiter);
    run('/bin/sh', ['-e', '-c', commands], { cwd: this.folder, env: { ...env, PATH } });
  }

  /** Copies the built files to a new folder, which it returns, and removes the project. */
  ship(...paths: readonly string[]): string {
    const target = emptyFolder();
    for (const path of paths) {
      const options = { recursive: true, verbatimSymlinks: true };
      cpSync(join(this.folder, path), join(target, path), options);
    }
    this.#remove();
    return target;
  }
}

/** A folder for one test. */
function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-deployed-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a program; throws unless it ends with code 0. Its environment is exactly the given one. */
export function run(
  command: string,
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: NodeJS.ProcessEnv },
): Output {
  const options = { cwd, env, encoding: 'utf8', input: '', maxBuffer: 1 << 26 } as const;
  const { status, error, stdout, stderr } = spawnSync(command, args, options);
  if (status === 0) return { stdout, stderr };
  throw new Error(`${command} ${args.join(' ')}: ${error ?? status}\n${stdout}${stderr}`);
}

/** Runs the shipped program from another folder, on the model; `args` come before its two arguments. */
export function runShipped(command: string, ...args: readonly string[]): Output {
  const cwd = emptyFolder();
  return run(command, [...args, MODEL, TENSOR], { cwd, env: { HOME: cwd } });
}

/** Compares the output of a program of test/package/children with Python's description of the model. */
export function expectSameAsPython(seen: Record<string, unknown>, storage: 'mmap' | 'read'): void {
  const tensor = readDescription(DESCRIPTION).tensors.find(({ name }) => name === TENSOR);
  const sha256 = createHash('sha256').update(String(seen['hex']), 'hex').digest('hex');
  expect({ ...seen, hex: sha256 }).toEqual({
    storage,
    dtype: tensor?.dtype,
    shape: tensor?.shape,
    hex: tensor?.sha256,
  });
}

/** The program mapped the file, and nothing warned. */
export function expectMapped({ stdout, stderr }: Output): void {
  expect(stderr).toBe('');
  expectSameAsPython(JSON.parse(stdout), 'mmap');
}

/** The program read the file, and one warning gave the reason. */
export function expectRead({ stdout, stderr }: Output, reason: RegExp): void {
  const warnings = stderr.match(/^\(\w+:\d+\) .*$/gm) ?? [];
  expect(warnings, stderr).toEqual([expect.stringMatching(reason)]);
  expect(warnings[0]).toContain('[SAFETENSORS_MAPPING_UNAVAILABLE]');
  expectSameAsPython(JSON.parse(stdout), 'read');
}
