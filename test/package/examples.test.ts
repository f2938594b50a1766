/** Every example of the pages and docstrings compiles as TypeScript, runs, and prints the output that it shows. */
import { afterAll, describe, expect, it } from 'vitest';
import {
  declaredIn,
  ExampleProject,
  examplesIn,
  languagesIn,
  publicNames,
  withImport,
} from '../support/examples.js';
import { filesBelow, textOf } from '../support/source-tree.js';

const pages = filesBelow('.').filter((path) => path.endsWith('.md'));
const sources = filesBelow('src').filter((path) => path.endsWith('.ts'));
const declared = new Map(sources.map((path) => [path, declaredIn(path)]));

const examples = [
  ...pages.flatMap((path) => examplesIn(textOf(path), path)),
  ...[...declared.values()].flat().flatMap((entry) => entry.examples.map(withImport)),
];
const project = new ExampleProject(examples);

afterAll(() => project.remove());

describe('pages', () => {
  it('have no programs that are not examples', () => {
    const languages = pages.flatMap((path) =>
      languagesIn(textOf(path)).map((name) => `${path} ${name}`),
    );
    const unknown = languages.filter((text) => !/ (?:ts|js|text|sh|mermaid|)$/.test(text));
    expect(unknown).toEqual([]);
  });

  it('have examples', () => {
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/recipes.md']));
    expect(examplesIn(textOf('README.md'), 'README.md').length).toBeGreaterThanOrEqual(1);
    expect(examplesIn(textOf('docs/recipes.md'), '').length).toBeGreaterThanOrEqual(10);
  });
});

describe('docstrings', () => {
  it('of all exported functions and classes have an example', () => {
    const entries = ['index', 'remote', 'convert', 'inspect', 'quantized'].flatMap((entry) => [
      ...publicNames(entry),
    ]);
    const exported = entries.flatMap(
      ([name, path]) => declared.get(path)?.filter((entry) => entry.name === name) ?? [],
    );
    const withCode = exported.filter(({ isFunctionOrClass }) => isFunctionOrClass);
    const named = new Set(withCode.map(({ name }) => name));
    for (const { name, examples } of withCode) if (examples.length > 0) named.delete(name);
    expect(withCode.length).toBeGreaterThan(20);
    expect([...named]).toEqual([]);
  });
});

describe('examples', () => {
  it('have the right types', () => {
    expect(project.typeErrors()).toEqual([]);
  });

  it.each(examples.map((example) => [example.title, example] as const))(
    '%s',
    async (_, example) => {
      expect(example.output).not.toBe('');
      expect(await project.run(example)).toBe(example.output);
    },
  );
});
