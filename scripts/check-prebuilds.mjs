// Before a release: refuses a package that lacks the addon for a platform, or whose files differ from
// prebuilds/SHA256SUMS. With `--say` it refuses nothing, and says which platforms a tarball lacks.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { TARGETS } from './cross/targets.mjs';

const prebuilds = fileURLToPath(new URL('../prebuilds', import.meta.url));

const sums = new Map(
  readFileSync(join(prebuilds, 'SHA256SUMS'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('  ').toReversed()),
);

function problem(path) {
  const file = join(prebuilds, path);
  if (!existsSync(file)) return 'is missing';
  const sum = createHash('sha256').update(readFileSync(file)).digest('hex');
  return sum === sums.get(path) ? undefined : 'is not the file of SHA256SUMS';
}

const problems = TARGETS.map(({ platform }) => `${platform}/safetensors-mmap.node`).flatMap(
  (path) => {
    const found = problem(path);
    return found === undefined ? [] : [`prebuilds/${path} ${found}`];
  },
);
if (process.argv.includes('--say')) {
  const platforms = TARGETS.map(({ platform }) => platform);
  const pathOf = (platform) => `${platform}/safetensors-mmap.node`;
  const lacking = platforms.filter((platform) => !existsSync(join(prebuilds, pathOf(platform))));
  const own = platforms.filter(
    (platform) => !lacking.includes(platform) && problem(pathOf(platform)),
  );
  if (lacking.length > 0) {
    console.error(
      `safetensors-mmap: no addon for ${lacking.join(', ')}: there files are read into memory instead of mapped. ` +
        '`npm run prebuild -- --all` makes them all.',
    );
  }
  if (own.length > 0) {
    console.error(`safetensors-mmap: made here, not a file of SHA256SUMS: ${own.join(', ')}.`);
  }
} else if (problems.length > 0) {
  console.error(`${problems.join('\n')}\nRun npm run prebuild -- --all, and commit SHA256SUMS.`);
  process.exitCode = 1;
}
