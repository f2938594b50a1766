/** The commands `npm run bench` and `npm run demo`: what they refuse, and small runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { rowsOf } from '../../benchmarks/figures.mjs';
import { NAMES, TRIALS } from '../../benchmarks/trials.mjs';
import { temporaryPath, writeTemporary } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';

/** Where the command makes its files, and leaves none. */
let temporary: string;
beforeEach(async () => {
  temporary = temporaryPath('temporary');
  await mkdir(temporary);
});

/** Without any Python. */
function start(command: string, ...args: string[]) {
  const env = { ...process.env, TMPDIR: temporary, SAFETENSORS_PYTHON: '/no/python' };
  const file = join(import.meta.dirname, '../../benchmarks', `${command}.mjs`);
  return spawn(process.execPath, [file, ...args], { env });
}

async function run(command: string, ...args: string[]) {
  const child = start(command, ...args);
  const outputs = [text(child.stdout), text(child.stderr)] as const;
  const [[code], stdout, stderr] = await Promise.all([once(child, 'close'), ...outputs]);
  return { code, stdout, stderr };
}

test.each([
  ['bench --size 10', /^bench: --size must be a size of 1\.00 MB or more, .* but is "10"\n$/],
  ['bench --rounds 0', /^bench: --rounds must be a whole number of 1 or more, but is "0"\n$/],
  ['bench --compare HEAD --rounds 9', /^bench: --rounds must be .* of 11 or more, .*\n$/],
  ['bench --compare nosuch --size 2MB', /^bench: there is no commit nosuch\n$/],
  ['bench --only cold,nothing', /^bench: --only must name some of process-start, headers, .*\n$/],
  ['bench --compare HEAD --save', /^bench: takes either --save or --compare\n$/],
  ['bench --json', /^bench: Unknown option '--json'.*\n$/],
  ['demo /no/such/file', /^demo: ENOENT.*\/no\/such\/file.*\n$/],
  ['demo --size abc', /^demo: --size must be a size of .* but is "abc"\n$/],
  ['demo --size 9000000GB', /^demo: needs 9000000 GB in .* are free there.*\n$/],
  ['demo a b', /^demo: takes one PATH at most\n$/],
  ['demo a --size 1GB', /^demo: takes either a PATH or --size\n$/],
])('%j is refused in one line', async (line, message) => {
  const [command = '', ...args] = line.split(' ');
  const { code, stdout, stderr } = await run(command, ...args);
  expect(stderr).toMatch(message);
  expect([code, stdout, await readdir(temporary)]).toEqual([1, '', []]);
});

/** Trials of every kind; the others run at night. */
const SHORT = ['every-byte', 'cold', 'save', 'formats', 'pickle', 'commands'];

test('trials run, and have a section each', { timeout: 600_000 }, async () => {
  const names = nightly(NAMES, SHORT);
  const { code, stdout, stderr } = await run('bench', '--try', '--only', names.join(','));
  expect([code, stderr]).toEqual([0, '']);
  const trials = TRIALS.filter(({ name }) => names.includes(name));
  const titles = Array.from(stdout.matchAll(/^## (.+)$/gm), ([, title]) => title);
  expect(titles.length).toBe(trials.length + 1);
  expect(titles.at(-1)).toMatch(/^Targets on Node \d+$/);
  // This package has figures in all of them.
  for (const row of rowsOf(stdout).filter(([name = '']) => name.startsWith('safetensors-mmap'))) {
    expect(row[1], row.join()).toMatch(/\d|✓/);
  }
  expect(stdout).toMatch(/^- torch\.load was not measured: no Python/m);
  expect(stdout).toMatch(/^- 6 GB: not measured: it is for models of 2 GB$/m);
  expect(await readdir(temporary)).toEqual([]);
});

describe('the demo', () => {
  test('without Python, lists tensors, measures the readers of Node and explains the table', async () => {
    const { code, stdout, stderr } = await run('demo', '--size', '20MB');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^tensors +147$/m);
    const [head = [], ...rows]: string[][] = rowsOf(stdout);
    expect(rows.map(([name]) => name).toSorted()).toEqual(['fs.readFile', 'safetensors-mmap']);
    for (const cell of rows.flatMap((row) => row.slice(1))) expect(cell).toMatch(/^\+?\d/);
    for (const column of head.slice(1)) expect(stdout).toMatch(new RegExp(`^  ${column}  `, 'm'));
    expect(stdout).toMatch(/^ {2}torch\.load: no Python/m);
    expect(stdout).toContain('node scripts/python-env.mjs');
    expect(stdout).toMatch(/^safetensors-mmap opens the file in .*fs\.readFile.*\.\n$/m);
    expect(await readdir(temporary)).toEqual([]);
  });

  test('takes a file with tensors at odd addresses', async () => {
    const tensor = (name: string, length: number) =>
      ({ name, dtype: 'U8', shape: [length] }) as const;
    const path = writeTemporary([tensor('a', 5), tensor('b', 0), tensor('c', 7)]);
    const { stdout } = await run('demo', path);
    expect(stdout).toMatch(/^\| fs\.readFile +\| +\d/m);
    expect(stdout).not.toContain('wrong bytes');
  });

  test('says that a file without tensors has nothing to measure, and refuses others', async () => {
    const path = writeTemporary([]);
    expect((await run('demo', path)).stdout).toContain('nothing to measure');
    await writeFile(path, 'PK\u0003\u0004 this is a zip archive');
    const { code, stdout, stderr } = await run('demo', path);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^demo: .*model\.safetensors.*\n$/);
  });

  test('ends at SIGINT and removes the temporary folder', async () => {
    const child = start('demo', '--size', '2GB');
    const closed = once(child, 'close');
    while ((await readdir(temporary)).length === 0) await setTimeout(10);
    child.kill('SIGINT');
    expect((await closed)[0]).toBe(130);
    expect(await readdir(temporary)).toEqual([]);
  });
});
