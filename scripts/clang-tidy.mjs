// Runs clang-tidy on the C++ sources with the checks of native/.clang-tidy. clang-tidy is a Python package,
// installed into the environment of the oracle tests: no system package is needed.

import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { readBinding } from './cross/gyp.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { include_dir: headers } = createRequire(import.meta.url)('node-api-headers');

/** Runs a program; this script ends with it unless it succeeds. Returns what it printed to stdout. */
function run(program, args, stdout) {
  const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', stdout, 'inherit'] };
  const result = spawnSync(program, args, options);
  if (result.status === 0) return result.stdout;
  console.error(`clang-tidy: ${program}: ${result.error?.message ?? `exit ${result.status}`}`);
  process.exit(1);
}

const environment = [join(root, 'scripts/python-env.mjs'), 'scripts/clang-tidy.txt'];
const python = run(process.execPath, environment, 'pipe').trim().split('\n').at(-1);
const clangTidy = join(dirname(python), 'clang-tidy');

const options = ['--quiet', '--config-file=native/.clang-tidy'];
for (const { sources, flags } of readBinding(root, 'linux', process.arch)) {
  const compiler = [...flags, `-I${headers}`];
  run(clangTidy, [...options, ...sources, '--', ...compiler], 'inherit');
}
