/** The runtimes of the deploy tests, and projects that are built with their tools. */

import { join } from 'node:path';
import process from 'node:process';
import { inject } from 'vitest';
import { App } from '../support/deployed-app.js';
import { root } from '../support/source-tree.js';
import { APPS, TOOLS } from './setup.js';

const PROGRAMS = {
  node: process.execPath,
  'node-22': join(TOOLS, 'node_modules/node-22/bin/node'),
  'node-24': join(TOOLS, 'node_modules/node-24/bin/node'),
  'node-26': join(TOOLS, 'node_modules/node-26/bin/node'),
  bun: join(TOOLS, 'node_modules/@oven/bun-linux-x64/bin/bun'),
  deno: join(TOOLS, 'node_modules/@deno/linux-x64-glibc/deno'),
} as const;

/** The name of a runtime. */
export type Runtime = keyof typeof PROGRAMS;

/** Path of a runtime. */
export function programOf(runtime: Runtime): string {
  return PROGRAMS[runtime];
}

/** A project of a test, with the programs of test/package/children. */
export function makeApp(firstLines = ''): App {
  const folders = ['.bin', '@oven/bun-linux-x64/bin'];
  const paths = folders.map((folder) => join(TOOLS, 'node_modules', folder));
  const app = new App(APPS, inject('tarball'), [...paths, join(root, 'node_modules/.bin')]);
  app.writePrograms(firstLines);
  return app;
}

/** Takes the addons of other platforms out of the package of a project. */
export function pruneOthers(app: App): void {
  app.build('cd node_modules/safetensors-mmap/prebuilds && rm -r darwin-* win32-* linux-arm64');
}

/** Leaves the package of a project no addon but one in `build/Release`, where a clone compiles it. */
export function pruneAll(app: App): void {
  app.build(`cd node_modules/safetensors-mmap
mkdir -p build/Release
mv prebuilds/linux-x64/safetensors-mmap.node build/Release
rm -r prebuilds/*-*`);
}
