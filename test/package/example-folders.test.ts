/** The folders of `examples/` are complete, and their tests install the versions that they ask for. */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { filesBelow, root, textOf } from '../support/source-tree.js';

interface Manifest {
  readonly name: string;
  readonly version?: string;
  readonly private?: boolean;
  readonly type?: string;
  readonly license?: string;
  readonly engines?: { readonly node: string };
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(textOf(join(folder, 'package.json'))) as Manifest;

const files = filesBelow('examples');
const folders = [...new Set(files.map((path) => path.split('/')[1] ?? ''))].filter(
  (name) => !name.includes('.'),
);
const own = manifestOf('.');
const installed = manifestOf('test/examples').dependencies;

it('there are examples', () => {
  expect(folders).toContain('embedding-server');
});

describe.each(folders)('%s', (name) => {
  const folder = `examples/${name}`;
  const manifest = manifestOf(folder);

  it('is private, and depends on this version', () => {
    const { version, license, engines } = own;
    expect(manifest).toMatchObject({ private: true, type: 'module', license });
    expect(manifest.engines?.node).toMatch(/^>=\d+/);
    expect(engines?.node).toBe('>=20.19');
    expect(manifest.dependencies['safetensors-mmap']).toBe(version);
  });

  it('asks for the versions that its test installs', () => {
    const { 'safetensors-mmap': _, ...others } = manifest.dependencies;
    const asked = { ...others, ...manifest.devDependencies };
    const known = Object.keys(asked).map((one) => [one, installed[one]]);
    expect(asked).toEqual(Object.fromEntries(known));
  });

  it('has a test, a row in the list, and a page', () => {
    expect(existsSync(join(root, `test/examples/${name}.test.ts`))).toBe(true);
    expect(textOf('examples/README.md')).toContain(`\n| [${name}](${name}/README.md) | `);
    expect(existsSync(join(root, folder, 'README.md'))).toBe(true);
  });

  it('has the programs that its page and its scripts run', () => {
    const commands = [textOf(`${folder}/README.md`), ...Object.values(manifest.scripts ?? {})];
    const programs = commands.flatMap((text) =>
      Array.from(
        text.matchAll(/\b(?:node|python) ([\w./-]+\.(?:js|py))\b/g),
        ([, path = '']) => path,
      ),
    );
    expect(programs.length).toBeGreaterThan(0);
    expect(programs.filter((path) => !files.includes(`${folder}/${basename(path)}`))).toEqual([]);
  });
});
