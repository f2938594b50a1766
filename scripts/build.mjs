// Builds the addon and the package: prebuilds/, build/ and lib/. A part that is newer than its sources is not built
// again, which takes a tenth of a second to find out.
//
// `--ts` leaves the addon as it is: the addons of all platforms may be there already.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The files at and below these paths. */
function filesOf(paths) {
  return paths.flatMap((path) => {
    if (!statSync(join(root, path)).isDirectory()) return [path];
    return filesOf(readdirSync(join(root, path)).map((name) => join(path, name)));
  });
}

/** Runs a program of the project, and ends this one with its exit code when it fails. */
async function run(...args) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  if (code !== 0) process.exit(code ?? 1);
}

/** What `lib` and `build` are built from. */
const SOURCES = [
  'src',
  'viewer',
  'package.json',
  'tsconfig.json',
  'package-lock.json',
  'scripts/bundle.mjs',
  'scripts/declarations.mjs',
  'scripts/viewer.mjs',
  'scripts/man-page.mjs',
];

/** Its time is the start of the last complete build; it lists the files that were there. */
const stamp = join(root, 'build/package.stamp');
/** The file that a build writes last: without it `lib` was removed. */
const lastOutput = join(root, 'lib/safetensors-mmap.1');

async function buildPackage() {
  const began = new Date();
  const files = filesOf(SOURCES);
  const newest = Math.max(...files.map((path) => statSync(join(root, path)).mtimeMs));
  const list = files.join('\n');
  const isFresh =
    existsSync(stamp) &&
    existsSync(lastOutput) &&
    statSync(stamp).mtimeMs > newest &&
    readFileSync(stamp, 'utf8') === list;
  if (isFresh) return;
  console.error('building lib from src and viewer …');
  await run('node_modules/typescript/bin/tsc', '-b');
  await run('scripts/bundle.mjs');
  await run('scripts/viewer.mjs');
  await run('scripts/man-page.mjs');
  writeFileSync(stamp, list);
  utimesSync(stamp, began, began);
}

/** Builds what is older than its sources: the addon of this platform, unless `addon` is false, and the package. */
export async function build({ addon = true } = {}) {
  await Promise.all([addon ? run('scripts/build-native.mjs') : undefined, buildPackage()]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build({ addon: !process.argv.includes('--ts') });
}
