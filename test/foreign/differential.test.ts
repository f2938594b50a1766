/**
 * What this package reads of a file, Python reads the same: every tensor of every input of the fuzzer that is
 * accepted here is compared with what `torch.load(weights_only=True)` and `numpy.load` read, byte by byte.
 * They may refuse what is accepted here, such as protocol 4. Neither is asked about what is refused here.
 *
 * SAFETENSORS_SEED repeats a run, SAFETENSORS_FUZZ_INPUTS makes it longer.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/tensor/tensor.js';
import { findPython, isSkipped, titleWith } from '../support/python.js';
import { makeInput } from './fuzz-inputs.js';
import { CRASH, PythonReader, type Question, type TensorFact } from './python-reader.js';
import { readAll } from './readings.js';

const python = findPython('torch', 'numpy');
const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const count = Number(process.env['SAFETENSORS_FUZZ_INPUTS'] ?? 4000);
const first = Number(process.env['SAFETENSORS_FUZZ_FIRST'] ?? 0);

/** Files that Python is asked about together. */
const BATCH_LENGTH = 500;

interface Accepted extends Question {
  readonly reader: 'torch' | 'numpy';
  readonly about: string;
  readonly tensors: readonly TensorFact[];
  /** Names of what safetensors cannot hold. */
  readonly leftOut: ReadonlySet<string>;
}

let folder: string;
const reader = new PythonReader(python.executable ?? '');
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-differential-'));
  process.stderr.write(`foreign/differential: SAFETENSORS_SEED=${seed}\n`);
});
afterAll(async () => {
  await reader.close();
  rmSync(folder, { recursive: true });
});

/** The tensors that are read, and names of others; undefined when the file is refused. */
function readingOf(
  kind: Accepted['reader'],
  path: string,
): Pick<Accepted, 'tensors' | 'leftOut'> | undefined {
  const tensors: TensorFact[] = [];
  const leftOut = new Set<string>();
  const use = (name: string, { dtype, shape, bytes }: Tensor): void => {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    tensors.push([name, dtype, [...shape], sha256]);
  };
  const error = readAll(kind, path, use, (name) => leftOut.add(name));
  return error === undefined ? { tensors, leftOut } : undefined;
}

function inOrder(tensors: readonly TensorFact[]): TensorFact[] {
  return tensors.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Both as text, without the bytes of which Python is not sure. */
function shown(here: readonly TensorFact[], there: readonly TensorFact[]): [string, string] {
  const theirs = inOrder(there);
  const ours = inOrder(here).map(([name, dtype, shape, sha256], i) => {
    return [name, dtype, shape, theirs[i]?.[3] === null ? null : sha256];
  });
  return [JSON.stringify(ours), JSON.stringify(theirs)];
}

describe.skipIf(isSkipped(python))(titleWith(python, 'what is accepted'), () => {
  it(`of ${count} inputs is read alike by Python`, { timeout: 120_000 + 50 * count }, async () => {
    const counts = { torch: 0, numpy: 0, refused: 0 };
    const differences: string[] = [];
    for (let begin = first; begin < first + count; begin += BATCH_LENGTH) {
      const accepted: Accepted[] = [];
      for (let i = 0; i < Math.min(BATCH_LENGTH, first + count - begin); i++) {
        const { about, bytes } = makeInput(seed, begin + i);
        const path = join(folder, `${i}`);
        writeFileSync(path, bytes);
        for (const kind of ['torch', 'numpy'] as const) {
          const reading = readingOf(kind, path);
          const title = `seed ${seed}, input ${begin + i} (${about})`;
          if (reading !== undefined)
            accepted.push({ reader: kind, path, about: title, ...reading });
        }
      }
      const answers = await reader.answer<TensorFact[]>(accepted);
      for (const [i, { reader: kind, about, path, tensors, leftOut }] of accepted.entries()) {
        const answer = answers[i];
        if (answer?.found === undefined) {
          counts.refused++;
          if (answer?.error === CRASH) differences.push(`${about}: Python ended`);
          continue;
        }
        counts[kind]++;
        // What is left out is there in Python, whatever it is. An archive's arrays are read one by one.
        const others = answer.found.filter(([name]) => !leftOut.has(name));
        if (kind === 'torch' && others.length + leftOut.size !== answer.found.length) {
          differences.push(`${about}: Python does not have ${[...leftOut].join()}`);
        }
        const [ours, theirs] = shown(tensors, others);
        if (ours === theirs) continue;
        const kept = join(tmpdir(), about.replaceAll(/[^a-z0-9]+/g, '-'));
        copyFileSync(path, kept);
        differences.push(`${about}, kept as ${kept}:\nhere   ${ours}\nPython ${theirs}`);
      }
    }
    process.stderr.write(`${JSON.stringify(counts)}\n`);
    expect(differences.slice(0, 20).join('\n')).toBe('');
    expect(existsSync('PWNED')).toBe(false);
    expect(counts.torch).toBeGreaterThan(count / 50);
    expect(counts.numpy).toBeGreaterThan(count / 100);
  });
});
