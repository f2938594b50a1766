/** The installed package in other runtimes, and with fewer permissions. */
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { expectMapped, expectRead, type Output, runShipped } from '../support/deployed-app.js';
import { textOf } from '../support/source-tree.js';
import { makeApp, programOf, type Runtime } from './tools.js';

const PROGRAMS = ['app.mjs', 'app.cjs'];
const WORKERS = 'ended-workers.mjs';

/** Where the programs and their node_modules are. */
let folder: string;

beforeEach(() => {
  const app = makeApp();
  app.write(WORKERS, textOf(`test/package/children/${WORKERS}`));
  folder = app.ship('node_modules', 'package.json', ...PROGRAMS, WORKERS);
});

function runProgram(runtime: Runtime, args: readonly string[], program: string): Output {
  return runShipped(programOf(runtime), ...args, join(folder, program));
}

describe.each(['node-22', 'node-24', 'node-26'] as const)('%s', (runtime) => {
  // Node warns of --allow-addons.
  const permissions = ['--permission', '--allow-fs-read=*', '--disable-warning=SecurityWarning'];

  it.each(PROGRAMS)('maps, by %s', (program) => {
    expectMapped(runProgram(runtime, [], program));
  });

  it.each(PROGRAMS)('maps with --permission and --allow-addons, by %s', (program) => {
    expectMapped(runProgram(runtime, [...permissions, '--allow-addons'], program));
  });

  it.each(PROGRAMS)('warns once and reads with --permission alone, by %s', (program) => {
    expectRead(runProgram(runtime, permissions, program), /--permission, .* --allow-addons/);
  });
});

describe('Deno', () => {
  const flags = ['run', '--no-prompt', '--allow-read'];

  it.each(PROGRAMS)('maps with --allow-ffi, by %s', (program) => {
    expectMapped(runProgram('deno', [...flags, '--allow-ffi'], program));
  });

  it.each(PROGRAMS)('warns once and reads without, by %s', (program) => {
    expectRead(runProgram('deno', flags, program), /Deno forbids addons\. .* --allow-ffi/);
  });
});

describe.each([
  ['node-24', []],
  ['deno', ['run', '--no-prompt', '--allow-all']],
] as const)('workers of %s', (runtime, flags) => {
  it('keep no descriptor and no mapping when they end', () => {
    const output = runProgram(runtime, flags, WORKERS);
    const one = { descriptors: 1, mappings: 1 };
    // Each of three workers opens five files.
    const all = { descriptors: 16, mappings: 16 };
    expect(JSON.parse(output.stdout)).toEqual({
      ...{ before: one, 'terminate, open': all, terminate: one, 'exit, open': all, exit: one },
      ...{ 'close, open': all, close: one, isSame: true },
    });
  });
});

describe('Bun', () => {
  it.each(PROGRAMS)('maps, by %s', (program) => {
    expectMapped(runProgram('bun', [], program));
  });
});
