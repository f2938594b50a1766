import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { root } from '../support/source-tree.js';
import { mutantsOf } from './mutants.mjs';
import { Suite } from './suite.mjs';
import type { CoveredFile } from './suite-plan.mjs';
import { runFiles } from './suite-process.mjs';
import { insertFaults } from './trees.mjs';

const SOURCE = `export function sumTo(end: number): number {
  let sum = 0;
  for (let i = 1; i <= end; i++) sum += i;
  return sum;
}

export function isLarge(size: number): boolean {
  return size > 1000;
}

export function isReady(): boolean {
  return true;
}

export function isEven(size: number): boolean {
  return size % 2 === 0;
}
`;

/** A test runs `isEven` in a child process, a hook runs `isReady`. */
const TESTS = {
  'test/sum.test.ts': `import { beforeAll, expect, it } from 'vitest';
import { isLarge, isReady, sumTo } from '../src/sum.js';
beforeAll(() => {
  if (!isReady()) throw new Error('not ready');
});
it('sums', () => expect(sumTo(4)).toBe(10));
it('is small', () => expect(isLarge(10)).toBe(false));
it('fails without a fault', () => expect(sumTo(1)).toBe(2));`,
  'test/child.test.ts': `import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
it('runs a program', () => {
  expect(execFileSync(process.execPath, ['main.mjs'], { encoding: 'utf8' })).toBe('true');
});`,
};

const CONFIG = `import { defineConfig } from 'vitest/config';
export default defineConfig({
  test: { projects: [{ test: { name: 'unit', include: ['test/*.test.ts'], pool: 'forks' } }] },
});`;

/** Compiles the source, and writes a program that runs it. */
const BUILD = `import { readFileSync, writeFileSync } from 'node:fs';
import ts from 'typescript';
const { outputText } = ts.transpileModule(readFileSync('src/sum.ts', 'utf8'), {
  compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
});
writeFileSync('sum.mjs', outputText);
writeFileSync('main.mjs', "import { isEven } from './sum.mjs'; process.stdout.write(String(isEven(4)));");`;

const folder = mkdtempSync(join(tmpdir(), 'suite-'));
const lane = { tree: join(folder, 'tree'), temporary: join(folder, 'temporary') };
const mutants = mutantsOf('src/sum.ts', SOURCE).map((mutant, id) => ({ ...mutant, id }));
const logged: string[] = [];
const suite = new Suite({
  config: 'vitest.config.mjs',
  projects: ['unit'],
  log: (text) => logged.push(text),
});
let files: CoveredFile[] = [];

beforeAll(async () => {
  const contents = {
    ...TESTS,
    'src/sum.ts': SOURCE,
    'vitest.config.mjs': CONFIG,
    'build.mjs': BUILD,
    'package.json': JSON.stringify({ type: 'module' }),
  };
  for (const [path, text] of Object.entries(contents)) {
    mkdirSync(dirname(join(lane.tree, path)), { recursive: true });
    writeFileSync(join(lane.tree, path), text);
  }
  symlinkSync(join(root, 'node_modules'), join(lane.tree, 'node_modules'), 'junction');
  insertFaults(lane.tree, mutants, `"${process.execPath}" build.mjs`);
  files = await suite.cover(lane, join(folder, 'records'));
});

afterAll(() => rmSync(folder, { recursive: true }));

/** The verdict on a fault, asked of all files that reach it. */
async function judge(fault: string) {
  const id = mutants.findIndex((mutant) => mutant.fault === fault);
  expect(id, fault).toBeGreaterThanOrEqual(0);
  const order = files.filter(({ reached }) => reached.has(id));
  return await suite.judge(lane, id, order);
}

it('a run without a fault finds tests that fail', () => {
  expect(files.map(({ path, passed, failed }) => [path, passed, failed.length]).toSorted()).toEqual(
    [
      ['test/child.test.ts', 1, 0],
      ['test/sum.test.ts', 2, 1],
    ],
  );
  expect(logged).toEqual(['fails without a fault: test/sum.test.ts: fails without a fault']);
});

it('a failing test kills a fault, unless it fails without the fault', async () => {
  expect(await judge('i <= end → (i) < (end)')).toMatchObject({
    reachedBy: 1,
    killedBy: { path: 'test/sum.test.ts', name: 'sums', how: 'a test' },
  });
});

it('a test kills a fault in its child process', async () => {
  expect(await judge('size % 2 === 0 → (size % 2) !== (0)')).toMatchObject({
    reachedBy: 1,
    killedBy: { path: 'test/child.test.ts', name: 'runs a program' },
  });
});

it('a fault survives if no test fails, or no value changes', async () => {
  const survivors = ['size > 1000 → size > (1000 + 1)', 'size > 1000 → (size) >= (1000)'];
  expect((await judge(`${survivors[0]}`)).reachedBy).toBe(1);
  expect((await judge(`${survivors[1]}`)).reachedBy).toBe(0);
  for (const fault of survivors) expect((await judge(fault)).killedBy).toBeUndefined();
  expect(existsSync(lane.temporary)).toBe(false);
});

it('a failing hook kills a fault', async () => {
  expect(await judge('true → false')).toMatchObject({
    killedBy: { path: 'test/sum.test.ts', how: 'a hook' },
  });
});

it('a file that runs forever is ended by the time limit', async () => {
  const id = mutants.findIndex(({ fault }) => fault === 'i++ → i--');
  const { ended } = await runFiles({
    lane,
    job: {
      config: 'vitest.config.mjs',
      files: [{ project: 'unit', path: 'test/sum.test.ts' }],
    },
    env: { MUTATION_ACTIVE: `${id}` },
    limitOf: () => 3000,
    onMessage: () => undefined,
  });
  expect(ended).toBe('time limit');
});
