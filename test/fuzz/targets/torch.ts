/** Checkpoints of torch: refused, or the tensors that `torch.load(weights_only=True)` reads; nothing runs. */
import { existsSync } from 'node:fs';
import { type ScanReport, scanPickle } from 'safetensors-mmap/convert';
import type { TensorFact } from '../../foreign/python-reader.js';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import {
  archiveOfFaultyPickle,
  damaged,
  faultyArchive,
  faultyStream,
  madeCheckpoint,
  recordedFiles,
} from '../foreign-inputs.js';
import { compareReadings, compareWithPython, readForeign } from '../foreign-reading.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';

/**
 * Findings about what stands in an archive beside the checkpoint: the checkpoint is read without a look at it. And
 * checksums: those of storages are compared on request, those of torch's short records by the scan alone.
 */
const BESIDE: readonly string[] = [
  ...['unread-entry', 'nested-archive', 'comment', 'extra-field', 'checksum'],
];

function make(random: Random, corpus: Corpus): Buffer {
  return random.do(
    () => archiveOfFaultyPickle(random, corpus),
    () => archiveOfFaultyPickle(random, corpus),
    () => faultyStream(random, corpus),
    () => madeCheckpoint(random),
    () => madeCheckpoint(random),
    () => faultyArchive(random, corpus),
    () => damaged(random, corpus),
  );
}

/** What is read without a question has nothing to be afraid of, but for what is not read. */
export function compareWithScan(
  code: string | undefined,
  { verdict, findings, globals }: ScanReport,
): void {
  if (code !== undefined) return;
  const isBeside = findings.every(({ kind }) => BESIDE.includes(kind));
  const isSafe = verdict === 'safe' || (verdict === 'suspicious' && isBeside);
  if (isSafe && globals.every(({ kind }) => kind === 'allowed')) return;
  throw new Problem(`opened, but ${verdict}: ${JSON.stringify(findings)}`);
}

function check(input: Buffer, place: Place): string {
  const path = place.file(input);
  const here = readForeign('torch', path);
  // With placeholders more is read; what is read without them is the same.
  const lenient = readForeign('placeholders', path);
  if (here.code === undefined)
    compareReadings('reading with placeholders and without', here, lenient);
  compareWithScan(here.code, scanPickle(path));
  scanPickle(path, { checksums: true });
  if (existsSync('PWNED')) throw new Problem('something ran');
  if (here.code === undefined) {
    place.ask<readonly TensorFact[]>('torch', (answer) => compareWithPython(here, answer, true));
  }
  return here.code ?? 'tensors';
}

export const torch: Target = {
  name: 'torch',
  about: 'checkpoints of torch, with torch.load(weights_only=True)',
  sources: /^foreign\/(torch|pickle)\/(?!scan)/,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 200,
  outcomes: [
    'tensors',
    'SAFETENSORS_INVALID_PICKLE',
    'SAFETENSORS_FORBIDDEN_GLOBAL',
    'SAFETENSORS_INVALID_ARCHIVE',
  ],
  asksPythonOf: 1,
  seeds: () => recordedFiles(({ family }) => family !== 'numpy'),
  make,
  check,
};
