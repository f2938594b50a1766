/** The commands `npm run bench` and `npm run demo`: what they refuse, and small runs. */
import { type ExecFileException, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { rowsOf } from '../../benchmarks/figures.mjs';
import { encodeHeader, tensor } from '../../benchmarks/models.mjs';
import { textOf } from '../support/source-tree.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-bench-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

// One for each test: what a command leaves there, or is still doing there, is that test's alone.
let temporary: string;
beforeEach(async () => {
  temporary = await mkdtemp(join(folder, 'tmp-'));
});

/** Without any Python. */
function start(command: string): [file: string, env: NodeJS.ProcessEnv] {
  const env = { ...process.env, TMPDIR: temporary, SAFETENSORS_PYTHON: join(folder, 'none') };
  return [join(import.meta.dirname, '../../benchmarks', `${command}.mjs`), env];
}

function run(
  command: string,
  ...args: string[]
): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const [file, env] = start(command);
  return new Promise((resolve) => {
    execFile(process.execPath, [file, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: (error as ExecFileException | null)?.code ?? 0, stdout, stderr });
    });
  });
}

test.each([
  ['bench --size 10', /^bench: --size must be a size of 1MB or more, but is "10"\n$/],
  ['bench --rounds 0', /^bench: --rounds must be a whole number of 1 or more, but is "0"\n$/],
  [
    'bench --compare HEAD --rounds 9',
    /^bench: --rounds must be a whole number of 11 or more, .*\n$/,
  ],
  ['bench --only cold,nothing', /^bench: --only must name some of process-start, calls, .*\n$/],
  ['bench --save --only cold', /^bench: --save needs all trials, without --only\n$/],
  ['bench --save --add', /^bench: takes either --save or --add\n$/],
  ['bench --compare HEAD --replace', /^bench: takes either --replace or --compare\n$/],
  ['bench --json', /^bench: Unknown option '--json'.*\n$/],
  ['demo /no/such/file', /^demo: ENOENT.*\/no\/such\/file.*\n$/],
  ['demo --size abc', /^demo: --size must be a size such as 256MB or 1GB, but is "abc"\n$/],
  ['demo --size 10', /^demo: --size must be at least 1\.00 MB\n$/],
  ['demo --size 9000000GB', /^demo: needs 9000000 GB in .* are free there.*\n$/],
  ['demo a b', /^demo: takes one PATH at most\n$/],
  ['demo a --size 1GB', /^demo: takes either a PATH or --size.*\n$/],
])('%j is refused in one line', async (line, message) => {
  const [command = '', ...args] = line.split(' ');
  const { code, stdout, stderr } = await run(command, ...args);
  expect(stderr).toMatch(message);
  expect([code, stdout]).toEqual([1, '']);
  expect(await readdir(temporary)).toEqual([]);
});

/** Headings of tables, names of rows and targets of a page by its sections; numbers depend on the size. */
function structureOf(page: string): Map<string, string[][]> {
  const plain = (text = ''): string => text.replaceAll(/[\d.]+([ ,]\d+)*( [kMG]?B)?/g, 'N');
  const sections = page
    .split(/^## /m)
    .slice(1)
    .filter((text) => !/^Targets on Node (?!20)/.test(text));
  const parts = sections.map((text): [string, string[][]] => {
    const [head = [], ...rows]: string[][] = rowsOf(text);
    // A row of later calls is only there when they were measured; casts have a row for each.
    const columns = text.startsWith('Files on nginx') ? 2 : 1;
    return [
      plain(text.split('\n')[0]),
      [head.map(plain), ...rows.map((row) => row.slice(0, columns).map(plain))],
    ];
  });
  return new Map(parts);
}

test('all trials run, and give the tables that are published', { timeout: 600_000 }, async () => {
  const { code, stdout, stderr } = await run('bench', '--try');
  expect(stderr).toBe('');
  expect(code).toBe(0);
  const published = structureOf(textOf('benchmarks/results/results.md'));
  expect(structureOf(stdout.replace(/^## Targets on Node \d+/m, '## Targets on Node 20'))).toEqual(
    published,
  );
  // This package has figures in all of them.
  for (const row of rowsOf(stdout).filter(([name = '']) => name.startsWith('safetensors-mmap'))) {
    expect(row[1], row.join()).toMatch(/\d|✓/);
  }
  expect(stdout).toMatch(/^- torch\.load was not measured: no Python/m);
  expect(stdout).toMatch(/^- 6 GB: not measured: it is for models of 2 GB$/m);
  expect(await readdir(temporary)).toEqual([]);
});

describe('the demo', () => {
  test('makes a model, opens it and measures the readers', async () => {
    const { code, stdout, stderr } = await run('demo', '--size', '2MB');
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout).toContain('format = pt');
    expect(stdout).toContain('Tensors: 147');
    expect(stdout).toMatch(/lm_head\.weight +BF16 +\[\d+, 48\] +\d+ kB/);
    for (const name of ['safetensors-mmap', 'fs.readFile']) {
      expect(stdout).toMatch(
        new RegExp(`^${name}( +[\\d.]+ [mµ]?s){3} +[\\d.]+ ×( +[\\d.]+ → [\\d.]+ MB){2}$`, 'm'),
      );
    }
    expect(stdout).toMatch(/^not measured: torch\.load: no Python/m);
    expect(stdout).toMatch(/^sum of all words, equal in all rows: [0-9a-f]{16}$/m);
    expect(await readdir(temporary)).toEqual([]);
  });

  test('takes a file with tensors at odd addresses, and no control characters of it', async () => {
    const path = join(folder, 'odd.safetensors');
    const tensors = [tensor('a', 'U8', 5), tensor('b', 'U8', 0), tensor('c', 'U8', 7)];
    const header = encodeHeader(tensors, { key: '\u001b[31m red' });
    await writeFile(path, Buffer.concat([header, new Uint8Array(12).fill(1)]));
    const { stdout } = await run('demo', path);
    // Five ones, and seven ones, each as one word filled up with zeros.
    expect(stdout).toContain('equal in all rows: 0001010202020202');
    expect(stdout).toContain('key = \\u{1b}[31m red');
    expect(stdout).not.toContain('\u001b');
  });

  test('says that a file without tensors has nothing to measure, and refuses others', async () => {
    const path = join(folder, 'none.safetensors');
    await writeFile(path, encodeHeader([]));
    expect((await run('demo', path)).stdout).toContain('nothing to measure');
    await writeFile(path, 'PK\u0003\u0004 this is a zip archive');
    const { code, stdout, stderr } = await run('demo', path);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^demo: .*none\.safetensors.*\n$/);
  });

  test('ends at SIGINT and removes the temporary folder', async () => {
    const [file, env] = start('demo');
    const child = spawn(process.execPath, [file, '--size', '2GB'], { env, stdio: 'ignore' });
    const closed = once(child, 'close');
    while ((await readdir(temporary)).length === 0) await setTimeout(10);
    child.kill('SIGINT');
    expect((await closed)[0]).toBe(130);
    expect(await readdir(temporary)).toEqual([]);
  });
});
