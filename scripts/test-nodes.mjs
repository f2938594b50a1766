/**
 * Runs the tests with every version of Node that the package is tested on, and prints a line for each.
 * Arguments go to vitest: `node scripts/test-nodes.mjs test/tensor`. `--others` leaves out the version that runs this
 * script. npm brings the versions, as packages that hold nothing but Node, into `.nodes`. The addon is the same for all
 * of them.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';

const OTHERS = '--others';
const current = Number.parseInt(process.versions.node, 10);
const MAJORS = [20, 22, 24, 26].filter(
  (major) => major !== current || !process.argv.includes(OTHERS),
);
const COUNTS = /^\d+ passed, \d+ failed(?:, \d+ skipped)?$/;

const forVitest = process.argv.slice(2).filter((argument) => argument !== OTHERS);

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, '.nodes');

/** Installs the newest release of every version, unless it is there. */
function install() {
  const platform = `node-${process.platform}-${process.arch}`;
  const dependencies = MAJORS.map((major) => [`node${major}`, `npm:${platform}@^${major}`]);
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify({ private: true, dependencies: Object.fromEntries(dependencies) })}\n`,
  );
  const args = ['update', '--no-bin-links', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { status, error } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(`test-nodes: npm ${args.join(' ')}: ${error?.message ?? `exit ${status}`}`);
  process.exit(1);
}

/** Runs the tests with this Node, shows their output, and returns the last line of it. */
async function test(node) {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const reporters = ['--reporter=default', '--reporter=./scripts/count-reporter.mjs'];
  const args = [vitest, 'run', ...reporters, ...forVitest];
  const PATH = `${dirname(node)}${delimiter}${process.env.PATH}`;
  const options = {
    cwd: root,
    env: { ...process.env, PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  };
  const child = spawn(node, args, options);
  const ended = once(child, 'close');
  let counts = 'vitest did not come to its end';
  for await (const line of createInterface(child.stdout)) {
    console.log(line);
    if (COUNTS.test(line)) counts = line;
  }
  const [code, signal] = await ended;
  if (code !== 0) process.exitCode = 1;
  return signal === null ? counts : `${counts} (${signal})`;
}

await build();
install();
const results = [];
for (const major of MAJORS) {
  const node = join(folder, `node_modules/node${major}/bin/node`);
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim();
  console.log(`\n== Node ${version}`);
  results.push(`Node ${version}: ${await test(node)}`);
}
console.log(`\n${results.join('\n')}`);
