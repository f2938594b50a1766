/** The installed package in tests of other projects. Jest runs them in `vm` contexts, Vitest may. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { recipe } from '../support/deployed-app.js';
import { install } from '../support/installed-package.js';
import { root, textOf } from '../support/source-tree.js';
import { APPS, TOOLS } from './setup.js';
import { programOf, type Runtime } from './tools.js';

const FLAG = '--experimental-vm-modules';

/** How docs/bundlers.md names the addon for Jest. */
const SETUP =
  "process.env.SAFETENSORS_MMAP_ADDON = 'node_modules/safetensors-mmap/prebuilds/linux-x64/safetensors-mmap.node';";

/** Tests in `test-runners/behaviour.cjs`. */
const BEHAVIOUR_COUNT = 9;

let project: string;

beforeAll(() => {
  mkdirSync(APPS, { recursive: true });
  project = install(mkdtempSync(join(APPS, 'test-runners-')), 'app', inject('tarball'));
  cpSync(join(root, 'test/deploy/test-runners'), project, { recursive: true });
  writeFileSync(join(project, 'transform.json'), recipe('Jest', 0, 'text'));
  expect(textOf('docs/bundlers.md')).toContain(SETUP);
  writeFileSync(join(project, 'setup.cjs'), SETUP);
});

/** Runs a test runner that reports in Jest's JSON, and returns how many tests passed; all must. */
function run(node: Runtime, ...args: readonly string[]): number {
  const options = { cwd: project, encoding: 'utf8' } as const;
  const { stdout, stderr } = spawnSync(programOf(node), args, options);
  expect(stdout, stderr).toMatch(/^\{/);
  const { numPassedTests, numTotalTests } = JSON.parse(stdout);
  expect(numPassedTests, `${stdout}${stderr}`).toBe(numTotalTests);
  return numPassedTests;
}

function runJest(node: Runtime, flags: readonly string[], file: string, config = '{}'): number {
  const jest = join(TOOLS, 'node_modules/jest/bin/jest.js');
  return run(node, ...flags, jest, '--json', '--config', config, file);
}

describe.each<Runtime>(['node', 'node-22', 'node-24', 'node-26'])('Jest on %s', (node) => {
  it('ES modules', () => {
    expect(runJest(node, [FLAG], 'module.test.mjs')).toBe(BEHAVIOUR_COUNT);
    expect(runJest(node, [FLAG], 'environment.test.mjs')).toBe(1);
  });

  it('`import()` in CommonJS', () => {
    expect(runJest(node, [FLAG], 'import.test.cjs')).toBe(1);
  });

  it.each(['transform.json', 'named-addon.json'])(
    '`require` of a transformed copy: %s',
    (config) => {
      expect(runJest(node, [], 'require.test.cjs', config)).toBe(BEHAVIOUR_COUNT);
    },
  );
});

it.each<Runtime>(['node-24', 'node-26'])('Jest on %s: `require` of the ES module', (node) => {
  expect(runJest(node, [FLAG], 'require.test.cjs')).toBe(BEHAVIOUR_COUNT);
});

it.each(['forks', 'threads', 'vmForks', 'vmThreads'])('Vitest with the pool %s', (pool) => {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  expect(run('node', vitest, 'run', '--reporter=json', '--pool', pool)).toBe(BEHAVIOUR_COUNT);
});
