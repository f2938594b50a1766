/** PyTorch checkpoints: refused, or the tensors that `torch.load(weights_only=True)` reads; nothing runs. */
import { existsSync } from 'node:fs';
import { type ScanReport, scanPickle } from 'safetensors-mmap';
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

/** Of the records of an archive those that are read when it is opened; storages are read when they are asked for. */
const READ = /^[^/]*\/(data\.pkl|version|\.data\/version|byteorder)$/;
const STORAGE = /^[^/]*\/data\//;

/** Findings about bytes of the archive that are not looked at, and checksums: those of storages are compared on request. */
const ANYWHERE: readonly string[] = ['comment', 'extra-field', 'checksum', 'nested-archive'];

/** Findings about an archive's other records: they must name a record that is not read. */
const BESIDE: readonly string[] = ['unread-entry', 'code'];

/** The start of the entry's name in a problem. */
const PROBLEM = /^(?:entry "([^"]*)"|byte \d+ of ([^:]*)):/;

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

/**
 * A checkpoint that opens has no findings about records that were read: a scan's problems and names concern other
 * records, and it is no program.
 */
export function compareWithScan(
  code: string | undefined,
  { verdict, format, findings, problems, globals }: ScanReport,
): void {
  if (code !== undefined) return;
  const unread = findings.filter(({ kind }) => kind === 'unread-entry').map(({ entry }) => entry);
  const isBeside = (entry: string | undefined): boolean => entry !== undefined && !READ.test(entry);
  const isExplained =
    findings.every(
      ({ kind, entry }) =>
        ANYWHERE.includes(kind) ||
        (BESIDE.includes(kind) && isBeside(entry)) ||
        (isBeside(entry) && unread.includes(entry)),
    ) &&
    problems.every((problem) => {
      const [, entry, part] = PROBLEM.exec(problem) ?? [];
      const name = entry ?? part;
      return isBeside(name) && (!STORAGE.test(name as string) || unread.includes(name));
    }) &&
    globals.every(({ kind, entry }) => kind === 'allowed' || isBeside(entry));
  if (isExplained && verdict !== 'no-pickle' && format !== 'TorchScript') return;
  throw new Problem(
    `opened, but ${verdict}: ${JSON.stringify({ format, findings, problems, globals })}`,
  );
}

async function check(input: Buffer, place: Place): Promise<string> {
  const path = place.file(input);
  const here = await readForeign('torch', path);
  // Placeholders make more tensors readable; the others stay the same.
  const lenient = await readForeign('placeholders', path);
  if (here.code === undefined)
    compareReadings('reading with placeholders and without', here, lenient);
  compareWithScan(here.code, await scanPickle(path));
  await scanPickle(path, { verify: true });
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
