// Before a release: refuses a package that lacks the addon for a platform, or whose files differ from
// scripts/cross/SHA256SUMS. With `--pack` it refuses nothing: it writes prebuilds/SHA256SUMS, the sums of the files that
// a tarball built now has, and lists the platforms that it lacks.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { TARGETS } from './cross/targets.mjs';

const prebuilds = fileURLToPath(new URL('../prebuilds', import.meta.url));

const sums = new Map(
  readFileSync(new URL('cross/SHA256SUMS', import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('  ').toReversed()),
);

const sumOf = (path) =>
  createHash('sha256')
    .update(readFileSync(join(prebuilds, path)))
    .digest('hex');

function problem(path) {
  if (!existsSync(join(prebuilds, path))) return 'is missing';
  return sumOf(path) === sums.get(path) ? undefined : 'is not the file of SHA256SUMS';
}

const problems = TARGETS.map(({ platform }) => `${platform}/safetensors-mmap.node`).flatMap(
  (path) => {
    const found = problem(path);
    return found === undefined ? [] : [`prebuilds/${path} ${found}`];
  },
);
if (process.argv.includes('--pack')) {
  const platforms = TARGETS.map(({ platform }) => platform);
  const pathOf = (platform) => `${platform}/safetensors-mmap.node`;
  const lacking = platforms.filter((platform) => !existsSync(join(prebuilds, pathOf(platform))));
  const present = platforms.filter((platform) => !lacking.includes(platform));
  const lines = present.map((platform) => `${sumOf(pathOf(platform))}  ${pathOf(platform)}\n`);
  writeFileSync(join(prebuilds, 'SHA256SUMS'), lines.join(''));
  const own = present.filter((platform) => problem(pathOf(platform)));
  if (lacking.length > 0) {
    console.error(
      `safetensors-mmap: no addon for ${lacking.join(', ')}: there files are read into memory instead of mapped. ` +
        '`node scripts/prebuild.mjs --all` makes them all.',
    );
  }
  if (own.length > 0) {
    console.error(`safetensors-mmap: made here, not a file of SHA256SUMS: ${own.join(', ')}.`);
  }
} else if (problems.length > 0) {
  console.error(
    `${problems.join('\n')}\nRun node scripts/prebuild.mjs --all, and commit SHA256SUMS.`,
  );
  process.exitCode = 1;
}
