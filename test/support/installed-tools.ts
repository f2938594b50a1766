/** Before tests with their own tools: installs these where that is due, and packs the package once for all. */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import type { TestProject } from 'vitest/node';
import { npmProgram, pack, runNode } from './installed-package.js';
import { root } from './source-tree.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Path of the packed package. */
    tarball: string;
  }
}

/**
 * Prepares a test run, and returns what cleans up after it. `tools` is the folder of a package, `apps` a folder in it
 * where tests build their projects: the tools are found there as in a workspace of npm.
 */
export function setUpTools(project: TestProject, tools: string, apps: string): () => void {
  const modifiedAt = (path: string): number =>
    statSync(join(tools, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  // npm writes this file last.
  if (modifiedAt('node_modules/.package-lock.json') < modifiedAt('package-lock.json')) {
    // No tool needs its install script: all ship what they run in packages for each platform.
    const options = ['--ignore-scripts', '--no-audit', '--no-fund'];
    runNode(tools, process.env, npmProgram(), 'ci', ...options);
  }
  rmSync(apps, { recursive: true, force: true });
  mkdirSync(apps);
  // Bundlers follow the paths of the next tsconfig.json above, and those of the tests lead to `src`.
  writeFileSync(join(apps, 'tsconfig.json'), '{}');
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-packed-'));
  project.provide('tarball', pack(root, join(folder, 'tarball')).filename);
  return () => {
    for (const path of [apps, folder]) rmSync(path, { recursive: true, force: true });
  };
}
