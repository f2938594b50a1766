import { type ExecFileException, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeHeader } from '../../benchmarks/write-model.js';
import { findPython } from '../support/python.js';

const python = findPython('torch', 'numpy');

const DEMO = join(import.meta.dirname, '../../build/benchmarks/demo.js');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-demo-test-'));
});

// One for each test: what the demo leaves there, or is still doing there, is that test's alone.
let temporary: string;
beforeEach(async () => {
  temporary = await mkdtemp(join(folder, 'tmp-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Outcome {
  code: unknown;
  stdout: string;
  stderr: string;
}

function environment(python: string): NodeJS.ProcessEnv {
  return { ...process.env, TMPDIR: temporary, SAFETENSORS_PYTHON: python };
}

/** Runs the demo; by default without any Python. */
function runDemo(args: string[], python = join(folder, 'no-python')): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: environment(python) };
    execFile(process.execPath, [DEMO, ...args], options, (error, stdout, stderr) => {
      resolve({ code: (error as ExecFileException | null)?.code ?? 0, stdout, stderr });
    });
  });
}

/** The cells of the row that starts with `name`. */
function row(stdout: string, name: string): string[] {
  const line = stdout.split('\n').find((text) => text.startsWith(name)) ?? '';
  return line.slice(name.length).trim().split(/ {2,}/);
}

test('makes a model, opens it and measures the readers', async () => {
  const { code, stdout, stderr } = await runDemo(['--size', '2MB']);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toContain('format = pt');
  expect(stdout).toContain('Tensors: 147');
  expect(stdout).toMatch(/lm_head\.weight +BF16 +\[\d+, 48\] +\d+ kB/);
  for (const name of ['safetensors-mmap', 'fs.readFile']) {
    const [open, firstTensor, everyByte, ratio] = row(stdout, name);
    for (const time of [open, firstTensor, everyByte]) expect(time).toMatch(/^[\d.]+ m?s$/);
    expect(ratio).toMatch(/^[\d.]+ ×$/);
  }
  expect(stdout).toMatch(/^sum of all words, equal in all rows: [0-9a-f]{16}$/m);
  expect(await readdir(temporary)).toEqual([]);
});

test('says which rivals are missing without a Python', async () => {
  const { code, stdout } = await runDemo(['--size', '1MB']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^not measured: torch\.load: no Python/m);
  expect(stdout).toMatch(/^not measured: pickle, protocol 5: no Python/m);
});

test.skipIf(python.missing !== undefined)(
  `measures torch.load and pickle, which see the same bytes (${python.missing ?? 'has Python'})`,
  async () => {
    const { code, stdout, stderr } = await runDemo(['--size', '2MB'], python.executable);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout).not.toContain('not measured');
    for (const name of ['torch.load', 'pickle, protocol 5']) {
      expect(row(stdout, name)).toHaveLength(6);
    }
  },
);

describe('a file of the user', () => {
  const tensor = (name: string, byteLength: number) => ({
    name,
    dtype: 'U8',
    shape: [byteLength],
    byteLength,
  });

  async function write(name: string, data: Uint8Array, metadata = {}): Promise<string> {
    const path = join(folder, name);
    const tensors = [tensor('a', 5), tensor('b', 0), tensor('c', data.length - 5)];
    await writeFile(path, Buffer.concat([encodeHeader(tensors, metadata), data]));
    return path;
  }

  test('may have tensors at odd addresses, and empty ones', async () => {
    const path = await write('odd.safetensors', new Uint8Array(12).fill(1));
    const { code, stdout, stderr } = await runDemo([path]);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    // Five ones, and seven ones, each as one word filled up with zeros.
    expect(stdout).toContain(`equal in all rows: 0001010202020202`);
  });

  test('cannot send control characters to the terminal', async () => {
    const path = await write('control.safetensors', new Uint8Array(12), { key: '\u001b[31m red' });
    const { stdout } = await runDemo([path]);
    expect(stdout).toContain('key = \\u{1b}[31m red');
    expect(stdout).not.toContain('\u001b');
  });

  test('may have no tensors', async () => {
    const path = join(folder, 'none.safetensors');
    await writeFile(path, encodeHeader([], {}));
    const { code, stdout } = await runDemo([path]);
    expect(code).toBe(0);
    expect(stdout).toContain('nothing to measure');
  });

  test('that is something else is refused in one line', async () => {
    const path = join(folder, 'other.safetensors');
    await writeFile(path, 'PK\u0003\u0004 this is a zip archive');
    const { code, stdout, stderr } = await runDemo([path]);
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^demo: .*other\.safetensors.*\n$/);
  });
});

test.each([
  [['/no/such/file'], /^demo: ENOENT.*\/no\/such\/file.*\n$/],
  [['--size', 'abc'], /^demo: --size must be a size such as 256MB or 1GB, but is "abc"\n$/],
  [['--size', '10'], /^demo: --size must be at least 1\.00 MB\n$/],
  [['--size', '9000000GB'], /^demo: needs 9000000 GB in .* are free there.*\n$/],
  [['--sice', '1GB'], /^demo: Unknown option '--sice'.*\n$/],
  [['a', 'b'], /^demo: takes one PATH at most\n$/],
  [['a', '--size', '1GB'], /^demo: takes either a PATH or --size.*\n$/],
])('the arguments %j are refused in one line', async (args, message) => {
  const { code, stderr } = await runDemo(args);
  expect(stderr).toMatch(message);
  expect(code).toBe(1);
  expect(await readdir(temporary)).toEqual([]);
});

test('SIGINT ends it and removes the temporary folder', async () => {
  const child = spawn(process.execPath, [DEMO, '--size', '2GB'], {
    env: environment(join(folder, 'no-python')),
    stdio: 'ignore',
  });
  const closed = once(child, 'close');
  while ((await readdir(temporary)).length === 0) await setTimeout(10);
  child.kill('SIGINT');
  const [code] = await closed;
  expect(code).toBe(130);
  expect(await readdir(temporary)).toEqual([]);
});
