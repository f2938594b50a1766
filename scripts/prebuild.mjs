// Makes the addon for this platform, by node-gyp; with --all for all platforms that the package has files
// for, by the compiler of scripts/cross, which npm installs there. That needs Linux on x64.

import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const scripts = fileURLToPath(new URL('.', import.meta.url));
const cross = join(scripts, 'cross');

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (status === 0) return;
  console.error(`prebuild: ${command} ${args.join(' ')}: ${error?.message ?? `exit ${status}`}`);
  process.exit(1);
}

function modifiedAt(path) {
  return statSync(join(cross, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (process.argv.includes('--all')) {
  // npm writes this file last.
  if (modifiedAt('node_modules/.package-lock.json') < modifiedAt('package-lock.json')) {
    run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], cross);
  }
  run(process.execPath, [join(cross, 'build.mjs')]);
  process.stdout.write(readFileSync(join(scripts, 'cross/SHA256SUMS')));
} else {
  run(process.execPath, [join(scripts, 'build-native.mjs')]);
}
