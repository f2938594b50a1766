// Builds the addon from native/ into prebuilds/<platform>-<arch>, where the package has it and looks for it, unless
// it is newer than all its sources: `npm run prebuild -- --all` may have made it. Addons of other platforms stay
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

function run(script, args) {
  const env = { ...process.env, ...headerEnvironment() };
  const options = { cwd: root, env, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 };
  const result = spawnSync(process.execPath, [script, ...args], options);
  if (result.status === 0) return;
  process.stderr.write(`${result.stdout}${result.stderr}`);
  console.error('safetensors-mmap: the addon could not be built (see above).');
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
  run(packageFile('node-gyp', 'bin/node-gyp.js'), ['configure', 'build']);
  // A new file, not new bytes in the old one, which a running program may have mapped.
  mkdirSync(dirname(target), { recursive: true });
  rmSync(target, { force: true });
  copyFileSync(join(root, 'build/Release/safetensors-mmap.node'), target);
}
