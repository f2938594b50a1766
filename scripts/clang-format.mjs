// Formats the C and C++ sources, or with --check fails when one is not formatted.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const { clangFormatPath } = createRequire(import.meta.url)('clang-format-node');
const root = fileURLToPath(new URL('..', import.meta.url));

const files = [
  'native',
  join('benchmarks', 'native'),
  join('test', 'sanitize'),
  join('test', 'faults'),
]
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)))
  .filter((file) => /\.(cc|c|h)$/.test(file));

const style = '--style=file:native/.clang-format';
const mode = process.argv.includes('--check') ? ['--dry-run', '--Werror'] : ['-i'];
const options = { cwd: root, stdio: 'inherit' };
process.exitCode = spawnSync(clangFormatPath, [style, ...mode, ...files], options).status ?? 1;
