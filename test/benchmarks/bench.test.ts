/** The command `npm run bench`: its options, and a small run. */
import { type ExecFileException, execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FORMATS } from '../../benchmarks/formats.js';
import { TRIALS } from '../../benchmarks/trials.js';

const BENCH = join(import.meta.dirname, '../../build/benchmarks/bench.js');

let temporary: string;
beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'safetensors-bench-test-'));
});
afterAll(() => rm(temporary, { recursive: true, force: true }));

/** Runs the benchmarks without any Python. */
function runBench(args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const env = { ...process.env, TMPDIR: temporary, SAFETENSORS_PYTHON: join(temporary, 'none') };
  return new Promise((resolve) => {
    execFile(process.execPath, [BENCH, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: (error as ExecFileException | null)?.code ?? 0, stdout, stderr });
    });
  });
}

test.each([
  [['--size', '10'], /^bench: --size must be a size of 1MB or more, but is "10"\n$/],
  [['--size', 'abc'], /^bench: --size must be .* but is "abc"\n$/],
  [['--rounds', '0'], /^bench: --rounds must be a whole number above 0, but is "0"\n$/],
  [['--only', 'cold,nothing'], /^bench: --only must name some of process-start, calls, .*\n$/],
  [['--save', '--only', 'cold'], /^bench: --save needs all trials, without --only\n$/],
  [['--save', '--add'], /^bench: takes either --save or --add\n$/],
  [['--replace', '--add'], /^bench: takes --replace without --save and --add\n$/],
  [['--json'], /^bench: Unknown option '--json'.*\n$/],
])('the arguments %j are refused in one line', async (args, message) => {
  const { code, stdout, stderr } = await runBench(args);
  expect(stderr).toMatch(message);
  expect(stdout).toBe('');
  expect(code).toBe(1);
});

test('help names all trials', async () => {
  const { code, stdout } = await runBench(['--help']);
  expect(code).toBe(0);
  expect(stdout).toContain([...TRIALS.keys()].join(', '));
});

test('a small run prints tables and verdicts, and what was not measured', async () => {
  const only = 'every-byte,one-tensor,memory,process-start,save,checkpoint,calls';
  const args = ['--size', '2MB', '--rounds', '1', '--only', only];
  const { code, stdout, stderr } = await runBench(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toContain('- model: 2.00 MB, BF16, 147 tensors');
  const sections = stdout.split(/^## /m).slice(1);
  expect(sections).toHaveLength(8);
  for (const [row, section] of [
    [
      /^\| limit: plain mapping, C +\|( +[\d.]+ [mµ]?s \|){4}( +[\d.]+ m?s – [\d.]+ m?s \|) +[\d.]+ × \|( +[-+][\d.]+ k?M?B \|){3}$/m,
      0,
    ],
    [
      /^\| safetensors-mmap +\|( +[\d.]+ m?s \|){4}( +[\d.]+ m?s – [\d.]+ m?s \|) +[\d.]+ × \|( +[-+][\d.]+ k?M?B \|){3}$/m,
      0,
    ],
    [/^\| fs\.readFile +\| +[\d.]+ m?s \| +[\d.]+ × \| +/m, 1],
    [/^\| safetensors-mmap +\|( +-?[\d.]+ k?M?B \|){6}$/m, 2],
    [/^\| Node alone, opens nothing +\| +[\d.]+ m?s \| +[\d.]+ × \|$/m, 3],
    [/^\| safetensors-mmap, its import alone +\| +[\d.]+ ms \| +[\d.]+ × \|$/m, 3],
    [/^\| import +\| +at most 10\.0 ms \| +[\d.]+ ms \| +(pass|FAIL) \| +\|$/m, 7],
    [
      /^\| process start to the first byte, above Node alone +\| +at most 12\.0 ms \| +-?[\d.]+ m?s \| +(pass|FAIL) \| +Node alone [\d.]+ ms \|$/m,
      7,
    ],
    [/^\| saveFile +\| +[\d.]+ m?s \| +[\d.]+ [kMG]B \| +[-+][\d.]+ k?M?B \|$/m, 4],
    [
      /^\| limit: copy_file_range, C +\| +[\d.]+ m?s \| +[\d.]+ [kMG]B \| +[-+][\d.]+ k?M?B \|$/m,
      4,
    ],
    [/^\| every header checked +\| +[\d.]+ m?s \| +– \| +– \|$/m, 5],
    [/^\| safetensors-mmap +\|( +[\d.]+ [mµ]s \|){3}$/m, 6],
    [
      /^\| every byte, warm: faster than fs.readFile +\| +at least 8\.00 × \| +[\d.]+ × \| +(pass|FAIL) \| +ours [\d.]+ ms, theirs [\d.]+ ms \|$/m,
      7,
    ],
    [
      /^\| every byte, warm: faster than pickle, protocol 5 +\| +at least 8\.00 × \| +– \| not measured \|/m,
      7,
    ],
  ] as const) {
    expect(sections[section]).toMatch(row);
  }
  expect(sections[0]).toMatch(/^- torch\.load was not measured: no Python/m);
  expect(await readdir(temporary)).toEqual([]);
});

test('formats that only Python writes are left out without it, each with the reason', async () => {
  // A quarter of the file is more than what an engine needs for itself: 0.3 to 0.7 MB.
  const args = ['--size', '8MB', '--rounds', '1', '--only', 'formats'];
  const { code, stdout, stderr } = await runBench(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^\| safetensors: safetensors-mmap +\| +✓ \| +✓ \| +[✓✗–] \| +✓ \| +– \| +BF16 \| +F8_E4M3 \|/m,
  );
  for (const { driver } of FORMATS.slice(1)) {
    const { name } = driver;
    expect(stdout).toMatch(
      new RegExp(`^- ${name.replaceAll(/[()]/g, '\\$&')} was not measured: n`, 'm'),
    );
  }
});

test('without Python there is no checkpoint of torch to measure', async () => {
  const args = ['--size', '2MB', '--rounds', '1', '--only', 'pickle'];
  const { code, stdout, stderr } = await runBench(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\| safetensors-mmap, the same as safetensors +\| +[\d.]+ ms \|/m);
  expect(stdout).toMatch(/^- openTorchCheckpoint was not measured: no Python/m);
  expect(stdout).toMatch(/^- convert was not measured: no Python/m);
  expect(stdout).toMatch(/^- 6 GB: not measured: it is for models of 2 GB$/m);
});

test('the command line is measured as whole processes', async () => {
  const args = ['--size', '2MB', '--rounds', '1', '--only', 'commands'];
  const { code, stdout, stderr } = await runBench(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  for (const command of ['inspect', 'header', 'hash', 'diff --values --json']) {
    expect(stdout).toMatch(
      new RegExp(`^\\| safetensors-mmap ${command} +\\| +[\\d.]+ m?s \\|`, 'm'),
    );
  }
  expect(stdout).toMatch(/^- diff --values: the same in Python with torch was not measured: no P/m);
});
