/** Before the deploy tests: installs their tools where that is due, and packs the package once for all. */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import type { TestProject } from 'vitest/node';
import { npmProgram, pack, runNode } from '../support/installed-package.js';
import { root } from '../support/source-tree.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of the packed package. */
    tarball: string;
  }
}

/** The package of the tools. */
export const TOOLS: string = join(root, 'test/deploy');

/**
 * Where the tests build their projects: inside the package of the tools, which are found there as in a workspace of
 * npm. Built programs run elsewhere.
 */
export const APPS: string = join(TOOLS, '.apps');

function modifiedAt(path: string): number {
  return statSync(join(TOOLS, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

export default function setUp(project: TestProject): () => void {
  // npm writes this file last.
  if (modifiedAt('node_modules/.package-lock.json') < modifiedAt('package-lock.json')) {
    // No tool needs its install script: all ship what they run in packages for each platform.
    const options = ['--ignore-scripts', '--no-audit', '--no-fund'];
    runNode(TOOLS, process.env, npmProgram(), 'ci', ...options);
  }
  rmSync(APPS, { recursive: true, force: true });
  mkdirSync(APPS);
  // Bundlers follow the paths of the next tsconfig.json above, and those of the tests lead to `src`.
  writeFileSync(join(APPS, 'tsconfig.json'), '{}');
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-packed-'));
  project.provide('tarball', pack(root, join(folder, 'tarball')).filename);
  return () => {
    for (const path of [APPS, folder]) rmSync(path, { recursive: true, force: true });
  };
}
