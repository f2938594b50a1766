/**
 * Damaged and hostile files of torch and NumPy: whatever is in them, they give tensors or an error of this
 * package, soon, in little memory, and nothing in them runs.
 *
 * SAFETENSORS_SEED repeats a run, SAFETENSORS_FUZZ_INPUTS makes it longer, SAFETENSORS_FUZZ_FIRST begins at an
 * input: with these three one input alone can be repeated.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ScannedGlobal } from '../../src/foreign/torch/scan-report.js';
import { type FuzzInput, makeInput } from './fuzz-inputs.js';
import { readEveryWay } from './readings.js';

const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const count = Number(process.env['SAFETENSORS_FUZZ_INPUTS'] ?? 4000);
const first = Number(process.env['SAFETENSORS_FUZZ_FIRST'] ?? 0);

/** What one input may cost, read in all ways. */
const MAX_MILLISECONDS = 1000;
const MAX_BYTE_LENGTH = 200 * 2 ** 20;

/** The event loop turns after so many inputs. */
const INPUTS_PER_TURN = 500;

/** Findings about what stands in an archive beside the checkpoint: the checkpoint is read without a look at it. */
const BESIDE: readonly string[] = ['unread-entry', 'nested-archive', 'comment', 'extra-field'];

function isForbidden({ kind }: ScannedGlobal): boolean {
  return kind !== 'allowed';
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-fuzz-'));
  process.stderr.write(`foreign/fuzz: SAFETENSORS_SEED=${seed}\n`);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** How often something came of an input. */
type Counts = Map<string, number>;

function countOne(counts: Counts, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

/** Throws when the input does what it must not; the file stays, and the message says where. */
function check(path: string, { about, bytes }: FuzzInput, number: number, counts: Counts): void {
  writeFileSync(path, bytes);
  const refuse = (problem: string, cause?: unknown): never => {
    const kept = join(tmpdir(), `safetensors-fuzz-${seed}-${number}`);
    writeFileSync(kept, bytes);
    throw new Error(`seed ${seed}, input ${number} (${about}), kept as ${kept}: ${problem}`, {
      cause,
    });
  };
  const measured = (): number => {
    const began = performance.now();
    try {
      const { errors, report } = readEveryWay(path);
      const torchError = errors.get('torch');
      // What is read without a question has nothing to be afraid of, but for what is not read.
      const isBeside = report.findings.every(({ kind }) => BESIDE.includes(kind));
      const isSafe = report.verdict === 'safe' || (report.verdict === 'suspicious' && isBeside);
      if (torchError === undefined && (!isSafe || report.globals.some(isForbidden))) {
        refuse(`opened, but ${report.verdict}: ${JSON.stringify(report.findings)}`);
      }
      for (const [reader, error] of errors)
        countOne(counts, `${reader} ${error?.code ?? 'tensors'}`);
      countOne(counts, `scan ${report.verdict}`);
    } catch (error) {
      if ((error as Error).message.startsWith('seed ')) throw error;
      refuse(`${error}`, error);
    }
    return performance.now() - began;
  };
  const before = process.resourceUsage().maxRSS;
  // A busy machine is no fault of the input: a slow one is read again.
  let milliseconds = measured();
  if (milliseconds > MAX_MILLISECONDS) milliseconds = Math.min(milliseconds, measured());
  if (milliseconds > MAX_MILLISECONDS) refuse(`took ${milliseconds} ms`);
  const byteLength = 1024 * (process.resourceUsage().maxRSS - before);
  if (byteLength > MAX_BYTE_LENGTH) refuse(`took ${byteLength} bytes of memory`);
}

it(`${count} damaged and hostile files`, { timeout: 120_000 + 20 * count }, async () => {
  const path = join(folder, 'input');
  const counts: Counts = new Map();
  for (let number = first; number < first + count; number++) {
    check(path, makeInput(seed, number), number, counts);
    if (number % INPUTS_PER_TURN === 0) await nextTurn();
  }
  const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  process.stderr.write(
    sorted.map(([what, times]) => `${String(times).padStart(8)} ${what}\n`).join(''),
  );
  expect(existsSync('PWNED')).toBe(false);
  expect(existsSync(join(folder, 'PWNED'))).toBe(false);
  // Enough of them go deep: a fuzzer whose inputs are all refused at once shows nothing.
  if (count >= 1000) {
    expect(counts.get('torch tensors')).toBeGreaterThan(count / 20);
    expect(counts.get('numpy tensors')).toBeGreaterThan(count / 100);
    expect(counts.size).toBeGreaterThan(15);
  }
});
