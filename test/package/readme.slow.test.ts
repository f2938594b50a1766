/** Every program of README.md runs as pasted, with the packed package in an otherwise empty folder. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { examplesIn } from '../support/examples.js';
import {
  bareEnvironment,
  install,
  type Pack,
  pack,
  runNode,
} from '../support/installed-package.js';
import { root, textOf } from '../support/source-tree.js';

const readme = textOf('README.md');
const programs = examplesIn(readme, 'README.md');

let folder: string;
let tarball: Pack;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-readme-'));
  // As it was built: compiling would rewrite files that other tests use.
  tarball = pack(root, join(folder, 'packed'), '--ignore-scripts');
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('the README has a program that a reader can run first', () => {
  expect(programs.length).toBeGreaterThan(0);
  expect(programs[0]?.code.trimEnd().split('\n').length).toBeLessThanOrEqual(12);
});

it.each(programs.map((program, index) => [program.title, index, program] as const))(
  '%s (%i)',
  (_, index, { code, output }) => {
    const project = install(folder, `project-${index}`, tarball.filename);
    writeFileSync(join(project, 'first.mjs'), code);
    expect(output).not.toBe('');
    expect(runNode(project, bareEnvironment(folder), 'first.mjs')).toBe(output);
  },
);

it('the package has the pictures of the README', () => {
  const packed = tarball.files.map(({ path }) => path);
  const pictures = Array.from(readme.matchAll(/!\[[^\]]*\]\(([^)]+)\)/g), ([, path]) => path);
  expect(pictures.length).toBeGreaterThan(0);
  expect(packed).toEqual(expect.arrayContaining(pictures));
});

it('`npm install` in the README names the tarball of `npm pack`', () => {
  expect(readme).toContain(`npm install ./${basename(tarball.filename)}`);
});
