/** Strict programs of strangers against the types of the installed package, by several versions of TypeScript. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, inject, it } from 'vitest';
import {
  addNodeTypes,
  compileStrictly,
  entrySpecifiers,
  install,
} from '../support/installed-package.js';
import { root } from '../support/source-tree.js';
import { TOOLS } from './setup.js';

let folder: string;
let project: string;

beforeAll(() => {
  // Not below the tools: TypeScript would find the types that lie there.
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-typescript-'));
  project = install(folder, 'app', inject('tarball'));
  addNodeTypes(project);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(['5.7', '5.9', '6', '7'])('TypeScript %s', (version) => {
  const compiler = join(TOOLS, `node_modules/typescript-${version}/bin/tsc`);

  it('compiles a program that does not name the types of Node', () => {
    const program = 'consumer.mts';
    copyFileSync(join(root, 'test/package/children', program), join(project, program));
    compileStrictly(project, compiler, program);
  });

  it.each(entrySpecifiers())('compiles a program that imports nothing but %s', (entry) => {
    writeFileSync(join(project, 'entry.mts'), `export * from '${entry}';\n`);
    compileStrictly(project, compiler, 'entry.mts');
  });
});
