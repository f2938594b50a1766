// Makes the addon of this machine with prebuildify, from binding.gyp, by the system's own compiler:
// `node scripts/prebuild-host.mjs`. It takes the place of the file in prebuilds. node-gyp empties `build`, so the sources are
// compiled again.

import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { headerEnvironment } from './node-headers.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const prebuildify = createRequire(import.meta.url).resolve('prebuildify/bin.js');

function run(program, ...args) {
  const env = { ...process.env, ...headerEnvironment() };
  const { status } = spawnSync(program, args, {
    cwd: root,
    env,
    stdio: 'inherit',
    shell: program === 'npm' && process.platform === 'win32',
  });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}`);
}

run(process.execPath, prebuildify, '--napi', '--strip', '--name', 'safetensors-mmap');
run('npm', 'run', '--silent', 'compile:ts');
console.log(
  `made ${join('prebuilds', `${process.platform}-${process.arch}`, 'safetensors-mmap.node')}`,
);
