/** Files that `scanPickle` calls safe, or no pickle, run nothing in any of Python's readers. */
import { type ScanReport, scanPickle } from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import {
  archiveOfFaultyPickle,
  damaged,
  faultyArchive,
  faultyStream,
  madeArray,
  madeArrays,
  madeCheckpoint,
  recordedFiles,
} from '../foreign-inputs.js';
import { CRASH, type PythonAnswer } from '../oracle.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';

function make(random: Random, corpus: Corpus): Buffer {
  return random.do(
    () => archiveOfFaultyPickle(random, corpus),
    () => archiveOfFaultyPickle(random, corpus),
    () => faultyStream(random, corpus),
    () => faultyStream(random, corpus),
    () => madeCheckpoint(random),
    () => faultyArchive(random, corpus),
    () =>
      random.do(
        () => madeArray(random),
        () => madeArrays(random),
      ),
    () => damaged(random, corpus),
  );
}

/** Names that Python would import and torch forbids, by the loader. */
type Imports = Readonly<Record<string, readonly string[]>>;

/** Characters of text that no module name has: a page that begins with the letter of an opcode is no pickle. */
const NO_MODULE = /[^\p{L}\p{N}_.<>-]/u;

/** Of names that Python would import and torch forbids; those that the report lacks or calls allowed. */
function missed(names: readonly string[], { globals }: ScanReport): string[] {
  const known = globals.filter(({ kind }) => kind !== 'allowed');
  const listed = new Set(known.map(({ module, name }) => `${module}.${name}`));
  return names.filter((name) => !listed.has(name));
}

function judge(report: ScanReport, { found, error }: PythonAnswer<Imports>): void {
  if (error === CRASH) return;
  if (found === undefined) throw new Problem(`Python: ${error}`);
  const { verdict } = report;
  // A damaged file is walked up to the damage, which others may not see.
  if (verdict === 'malformed' || verdict === 'suspicious') return;
  for (const [loader, names] of Object.entries(found)) {
    const named = verdict === 'no-pickle' ? names.filter((name) => !NO_MODULE.test(name)) : names;
    const left = verdict === 'safe' ? names : missed(named, report);
    if (left.length > 0) throw new Problem(`${verdict}, but ${loader} imports ${left.join()}`);
  }
}

async function check(input: Buffer, place: Place): Promise<string> {
  const report = await scanPickle(place.file(input));
  place.ask<Imports>('imports', (answer) => judge(report, answer));
  return report.verdict;
}

export const scan: Target = {
  name: 'scan',
  about: 'scanPickle, with a Python that notes what it would import and call',
  sources: /^foreign\/(scan\/|pickle\/(walk|scan|forbidden)|file-kind)/,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 200,
  outcomes: ['safe', 'no-pickle', 'needs-code', 'suspicious', 'malformed'],
  asksPythonOf: 1,
  seeds: () => recordedFiles(() => true),
  make,
  check,
};
