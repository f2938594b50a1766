/** The installed package under Jest, whose tests run in a `vm` context: ES modules and CommonJS. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { install } from '../support/installed-package.js';
import { root } from '../support/source-tree.js';

const TOOLS = join(root, 'test/deploy/node_modules');
const FLAG = '--experimental-vm-modules';

/** Tests in `jest/behaviour.cjs`. */
const BEHAVIOUR_COUNT = 9;

let folder: string;
let project: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-jest-'));
  project = install(folder, 'app', inject('tarball'));
  cpSync(join(root, 'test/deploy/jest'), project, { recursive: true });
  for (const [from, name] of [
    [TOOLS, '@swc'],
    [TOOLS, 'babel-jest'],
    [join(root, 'node_modules'), 'esbuild'],
  ] as const) {
    symlinkSync(join(from, name), join(project, 'node_modules', name));
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Which versions of Node there are: that of this process, and those of the tools. */
const NODES: Readonly<Record<string, string>> = {
  'this Node': process.execPath,
  'node-22': join(TOOLS, 'node-22/bin/node'),
  'node-24': join(TOOLS, 'node-24/bin/node'),
  'node-26': join(TOOLS, 'node-26/bin/node'),
};

/** How the tests of one file went. */
function runJest(node: string, flags: readonly string[], file: string, ...args: readonly string[]) {
  const words = [...flags, join(TOOLS, 'jest/bin/jest.js'), '--json', ...args, file];
  const { stdout, stderr } = spawnSync(NODES[node] as string, words, {
    cwd: project,
    encoding: 'utf8',
  });
  expect(stdout, stderr).toMatch(/^\{/);
  const { numPassedTests, numTotalTests } = JSON.parse(stdout);
  expect(numPassedTests, stderr).toBe(numTotalTests);
  return numPassedTests as number;
}

describe.each(Object.keys(NODES))('%s', (node) => {
  it('ES modules', () => {
    expect(runJest(node, [FLAG], 'module.test.mjs')).toBe(BEHAVIOUR_COUNT);
    expect(runJest(node, [FLAG], 'environment.test.mjs')).toBe(1);
  });

  it('`import()` in CommonJS', () => {
    expect(runJest(node, [FLAG], 'import.test.cjs')).toBe(1);
  });

  it.each(['transform', 'named-addon'])('`require` of a transformed copy: %s', (name) => {
    const args = ['--config', `${name}.config.cjs`];
    expect(runJest(node, [], 'require.test.cjs', ...args)).toBe(BEHAVIOUR_COUNT);
  });
});

it.each(['node-24', 'node-26'])('%s: `require` of the ES module', (node) => {
  expect(runJest(node, [FLAG], 'require.test.cjs')).toBe(BEHAVIOUR_COUNT);
});
