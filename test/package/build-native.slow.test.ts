/** A failed build of the addon prints the error of node-gyp and the packages to install, even under `npm run --silent`. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { root } from '../support/source-tree.js';

const COPIED = ['package.json', 'binding.gyp', 'native'];
const SCRIPTS = ['scripts/build-native.mjs', 'scripts/node-headers.mjs'];

/** A copy of what the build reads, with a folder of programs that is its whole PATH. */
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-build-'));
  for (const path of [...COPIED, ...SCRIPTS]) {
    cpSync(join(root, path), join(folder, path), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  mkdirSync(join(folder, 'bin'));
  symlinkSync(process.execPath, join(folder, 'bin/node'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Path of the interpreter itself: wrappers of Python, such as pyenv's, need more programs. */
function findPython(): string {
  const args = ['-c', 'import sys; print(sys.executable)'];
  const { status, stdout } = spawnSync('python3', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error('python3 does not run');
  return stdout.trim();
}

function find(program: string): string {
  if (program === 'python3') return findPython();
  const paths = (process.env['PATH'] ?? '').split(delimiter).map((entry) => join(entry, program));
  const found = paths.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${program} is not on the PATH`);
  return found;
}

/** Builds as `npm run --silent` does, which sets the log level. */
function build(...programs: readonly string[]) {
  for (const name of programs) symlinkSync(find(name), join(folder, 'bin', name));
  const env = { HOME: folder, PATH: join(folder, 'bin'), npm_config_loglevel: 'silent' };
  const args = ['scripts/build-native.mjs'];
  return spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
}

it.each([
  ['Python', [], /find Python .*install the latest version of Python/],
  ['make', ['python3'], /not found: make/],
  [
    'a C++ compiler',
    ['python3', 'make', 'printf', 'mkdir'],
    /(?:g\+\+|c\+\+|clang\+\+): (?:No such file|not found)/,
  ],
])('without %s', (_, programs, error) => {
  const { status, stdout, stderr } = build(...programs);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(error);
  expect(stderr.indexOf('safetensors-mmap: cannot build the addon')).toBeGreaterThan(
    stderr.search(error),
  );
  for (const name of ['build-essential python3', 'xcode-select --install', 'Build Tools']) {
    expect(stderr).toContain(name);
  }
});
