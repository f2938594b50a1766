/** The installed package in other runtimes, and with fewer permissions. */
import { join } from 'node:path';
import { beforeEach, describe, it } from 'vitest';
import { expectMapped, expectRead, type Output, runShipped } from '../support/deployed-app.js';
import { makeApp, programOf, type Runtime } from './tools.js';

const PROGRAMS = ['app.mjs', 'app.cjs'];

/** Where the programs and their node_modules are. */
let folder: string;

beforeEach(() => {
  folder = makeApp().ship('node_modules', 'package.json', ...PROGRAMS);
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

describe('Bun', () => {
  it.each(PROGRAMS)('maps, by %s', (program) => {
    expectMapped(runProgram('bun', [], program));
  });
});
