// Builds the addon from native/ into prebuilds/<platform>-<arch>, where the package has it and looks for it, unless
// it is newer than all its sources: `node scripts/prebuild.mjs --all` may have made it. Addons of other platforms stay
// there.  Quiet unless something fails.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { headerEnvironment } from './node-headers.mjs';

const require = createRequire(import.meta.url);
const root = fileURLToPath(new URL('..', import.meta.url));

function packageFile(name, path) {
  return join(dirname(require.resolve(`${name}/package.json`)), path);
}

/** What building needs, and how to install it. */
const REQUIREMENTS = `\
safetensors-mmap: cannot build the addon: see the errors above.
Building needs Python 3, make and a C++ compiler:
  Debian, Ubuntu  apt-get install build-essential python3
  macOS           xcode-select --install
  Windows         Visual Studio Build Tools with "Desktop development with C++", and Python 3`;

/** node-gyp obeys the log level of npm; `npm run --silent` would hide its errors. */
function logLevel() {
  return process.env.npm_config_loglevel === 'silent' ? { npm_config_loglevel: 'error' } : {};
}

function run(script, args) {
  const env = { ...process.env, ...headerEnvironment(), ...logLevel() };
  const options = { cwd: root, env, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 };
  const result = spawnSync(process.execPath, [script, ...args], options);
  if (result.status === 0) return;
  console.error(`${result.stdout}${result.stderr}${REQUIREMENTS}`);
  process.exit(1);
}

const target = join(root, `prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`);

/** Modification time of the newest of the addon's sources. */
function sourcesChangedAt() {
  const sources = readdirSync(join(root, 'native')).map((name) => join('native', name));
  const paths = [...sources, 'binding.gyp', 'package.json'];
  return Math.max(...paths.map((path) => statSync(join(root, path)).mtimeMs));
}

if ((statSync(target, { throwIfNoEntry: false })?.mtimeMs ?? 0) <= sourcesChangedAt()) {
  console.error('building the addon from native …');
  run(packageFile('node-gyp', 'bin/node-gyp.js'), ['configure', 'build', '--jobs', 'max']);
  // A new file, not new bytes in the old one, which a running program may have mapped.
  mkdirSync(dirname(target), { recursive: true });
  rmSync(target, { force: true });
  copyFileSync(join(root, 'build/Release/safetensors-mmap.node'), target);
}
