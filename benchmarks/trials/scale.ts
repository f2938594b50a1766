import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatByteSize, formatDuration } from '../byte-size.js';
import type { ScaleResult } from '../children/scale.js';
import { showProgress } from '../command-line.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from '../model.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atMost, type Section } from '../report.js';
import { ChildError, type Command, runChild } from '../run-child.js';
import { writeModel, writeSparseModel } from '../write-model.js';
import { cell, type TrialContext } from './context.js';

const HUGE_TENSORS = 1000;
const HUGE_TENSOR_BYTES = 2 ** 30;
const FILES = 1000;

/** Readers that are asked, by their names. */
const OURS = 'safetensors-mmap';
const FRAMEWORKS: Readonly<Record<string, string>> = {
  'Python safe_open, torch': 'pt',
  'Python safe_open, numpy': 'np',
};

/** What one reader did with one of the things. */
interface Outcome {
  readonly reader: string;
  readonly thing: string;
  readonly result: ScaleResult | string;
}

async function writeHuge(folder: string): Promise<string> {
  const path = join(folder, 'huge.safetensors');
  const tensors = Array.from({ length: HUGE_TENSORS }, (_, index) => ({
    name: `tensor.${index}`,
    dtype: 'U8',
    shape: [HUGE_TENSOR_BYTES],
    byteLength: HUGE_TENSOR_BYTES,
  }));
  await writeSparseModel(path, tensors);
  return path;
}

async function writeFiles(folder: string, signal: AbortSignal): Promise<string> {
  const files = join(folder, 'files');
  await mkdir(files);
  const first = join(files, '0.safetensors');
  await writeModel(first, modelTensors(modelSizes(MIN_MODEL_BYTES)), { signal });
  for (let index = 1; index < FILES; index++) {
    await copyFile(first, join(files, `${index}.safetensors`));
  }
  return files;
}

async function attempt(command: Command, signal: AbortSignal): Promise<ScaleResult | string> {
  try {
    return await runChild<ScaleResult>(command, signal);
  } catch (error) {
    if (!(error instanceof ChildError)) throw error;
    return error.message;
  }
}

function privateGrowth(result: ScaleResult | string): number {
  if (typeof result === 'string' || !result.before || !result.after) return Number.NaN;
  return result.after.anonymous - result.before.anonymous;
}

/** A huge file, very many files, very many threads. */
export async function scaleTrial(context: TrialContext): Promise<Section> {
  const { equipment, folder, path, signal } = context;
  const { python, middle } = equipment;
  const outcomes: Outcome[] = [];
  const ours = (...args: string[]): Command => ({
    file: process.execPath,
    args: [join(NODE_CHILDREN, 'scale.js'), ...args],
  });
  const run = async (thing: string, reader: string, command: Command): Promise<void> => {
    showProgress(`scale: ${thing}, ${reader}`);
    outcomes.push({ reader, thing, result: await attempt(command, signal) });
  };
  const runAll = async (thing: string, method: string, target: string): Promise<void> => {
    await run(thing, OURS, ours(method, target));
    if (typeof python === 'string') return;
    for (const [reader, framework] of Object.entries(FRAMEWORKS)) {
      const args = [join(PYTHON_CHILDREN, 'scale.py'), framework, method, target];
      await run(thing, reader, { file: python.file, args });
    }
  };
  const huge = await writeHuge(folder);
  await runAll('1 TB sparse file, its last tensor of 1 GiB', 'huge', huge);
  await rm(huge);
  const files = await writeFiles(folder, signal);
  await runAll(`${FILES} files at once, a byte of all tensors`, 'files', files);
  await rm(files, { recursive: true });
  const threads = '64 threads, one tensor in each';
  await run(threads, OURS, ours('workers', path, String(middle.index)));
  const failures = outcomes.filter(
    ({ reader, result }) => reader === OURS && typeof result === 'string',
  ).length;
  return {
    title: 'At scale',
    rows: [
      ['what, by whom', 'time', 'RssAnon'],
      ...outcomes.map(({ reader, thing, result }) => [
        `${thing}: ${reader}`,
        typeof result === 'string' ? 'failed' : formatDuration(result.elapsed),
        cell(privateGrowth(result), (bytes) => `+${formatByteSize(bytes)}`),
      ]),
    ],
    notes: [
      ...outcomes.flatMap(({ reader, thing, result }) =>
        typeof result === 'string' ? [`${thing}: ${reader} failed: ${result}`] : [],
      ),
      'the memory of 64 threads is that of 64 JavaScript engines',
    ],
    targets: [
      atMost('a 1 TB file, 1 000 files, 64 threads: failures of this package', failures, 0),
    ],
    measurements: outcomes,
  };
}
