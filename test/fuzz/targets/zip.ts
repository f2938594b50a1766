/** Archives of checkpoints and arrays: the entries read here are those of Python's `zipfile` and torch's reader. */
import { type ScanReport, scanPickle } from 'safetensors-mmap';
import type { TensorFact } from '../../foreign/python-reader.js';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import {
  damaged,
  faultyArchive,
  madeArrays,
  madeCheckpoint,
  recordedFiles,
} from '../foreign-inputs.js';
import { compareReadings, compareWithPython, readForeign } from '../foreign-reading.js';
import type { PythonAnswer } from '../oracle.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';
import { compareWithScan } from './torch.js';

/** The result of Python's readers of archives: SHA-256 of every entry by its name. */
interface ArchiveReading {
  readonly zipfile: Readonly<Record<string, string>> | string;
  readonly torch: Readonly<Record<string, string>> | string;
}

function make(random: Random, corpus: Corpus): Buffer {
  return random.do(
    () => faultyArchive(random, corpus),
    () => faultyArchive(random, corpus),
    () => faultyArchive(random, corpus),
    () => madeArrays(random),
    () => madeCheckpoint(random),
    () => damaged(random, corpus),
  );
}

/** An archive that opens here must have the entries that other readers see; checksums are compared on request. */
function compareReaders(
  { findings, problems }: ScanReport,
  { found, error }: PythonAnswer<ArchiveReading>,
): void {
  if (found === undefined) throw new Problem(`Python does not read the archive: ${error}`);
  if (typeof found.zipfile === 'string') {
    // Entries that are not read here may have damaged bytes, which the scan finds, too.
    const isDamage = /^(BadZipFile: Bad CRC-32|error: Error -3 )/.test(found.zipfile);
    const isFound = findings.some(({ kind }) => kind === 'checksum') || problems.length > 0;
    if (isDamage && isFound) return;
    // Such as a version of the format that it does not know.
    if (found.zipfile.startsWith('NotImplementedError')) return;
    throw new Problem(`read here, but by zipfile: ${found.zipfile}`);
  }
  if (typeof found.torch === 'string') return;
  for (const [name, sha256] of Object.entries(found.torch)) {
    if (found.zipfile[name] === sha256) continue;
    throw new Problem(`read here, but zipfile and torch see different bytes of '${name}'`);
  }
}

async function check(input: Buffer, place: Place): Promise<string> {
  const path = place.file(input);
  const checkpoint = await readForeign('torch', path);
  const arrays = await readForeign('numpy', path);
  compareWithScan(checkpoint.code, await scanPickle(path));
  const report = await scanPickle(path, { verify: true });
  const opaque = await readForeign('opaque', path);
  if (arrays.code === undefined && arrays.leftOut.size === 0) {
    compareReadings('mapped and read arrays', arrays, opaque);
  }
  if (checkpoint.code === undefined) {
    place.ask<readonly TensorFact[]>('torch', (answer) =>
      compareWithPython(checkpoint, answer, true),
    );
  }
  if (arrays.code === undefined) {
    place.ask<readonly TensorFact[]>('numpy', (answer) => compareWithPython(arrays, answer, false));
  }
  const isRead = checkpoint.code === undefined || arrays.code === undefined;
  const isArchive = input.subarray(0, 2).toString() === 'PK';
  if (isRead && isArchive) {
    place.ask<ArchiveReading>('zip', (answer) => compareReaders(report, answer));
  }
  return isRead ? 'tensors' : (checkpoint.code ?? '');
}

export const zip: Target = {
  name: 'zip',
  about: 'zip archives, with zipfile, numpy.load and the reader of torch',
  sources: /^foreign\/(zip\/|checksums|inflate|inflated)/,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 200,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_ARCHIVE', 'SAFETENSORS_INCOMPLETE_FILE'],
  asksPythonOf: 1,
  seeds: () => recordedFiles(({ family, file }) => family.includes('zip') || file.endsWith('.npz')),
  make,
  check,
};
