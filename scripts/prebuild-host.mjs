// Replaces the local addon in prebuilds by one that prebuildify builds from binding.gyp with the system's compiler.
// node-gyp empties `build`, so the sources are compiled again.

import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';
import { headerEnvironment } from './node-headers.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const prebuildify = createRequire(import.meta.url).resolve('prebuildify/bin.js');

const args = [prebuildify, '--napi', '--strip', '--name', 'safetensors-mmap'];
const env = { ...process.env, ...headerEnvironment() };
const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}`);
await build({ addon: false });
console.log(
  `made ${join('prebuilds', `${process.platform}-${process.arch}`, 'safetensors-mmap.node')}`,
);
