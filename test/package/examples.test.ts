/** Every example of the pages and docstrings runs, and prints the output that it shows. */
import { afterAll, describe, expect, it } from 'vitest';
import { ExampleProject, examplesIn, languagesIn, publicNames } from '../support/examples.js';
import { textOf } from '../support/source-tree.js';
import { allExamples, declared, pages } from './all-examples.js';

const project = new ExampleProject();

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
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/reading.md']));
    expect(examplesIn(textOf('README.md'), 'README.md').length).toBeGreaterThanOrEqual(1);
    expect(examplesIn(textOf('docs/reading.md'), '').length).toBeGreaterThanOrEqual(8);
  });
});

describe('docstrings', () => {
  it('of all exported functions and classes have an example', () => {
    const entries = ['index', 'inspect'].flatMap((entry) => [...publicNames(entry)]);
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
  it.each(allExamples.map((example) => [example.title, example] as const))(
    '%s',
    async (_, example) => {
      expect(example.output).not.toBe('');
      expect(await project.run(example)).toBe(example.output);
    },
  );
});
