/** NumPy arrays, single ones and archives: refused, or those that `numpy.load` reads. */
import { scanPickle } from 'safetensors-mmap';
import type { TensorFact } from '../../foreign/python-reader.js';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import { madeArray, madeArrays, recordedFiles } from '../foreign-inputs.js';
import { compareReadings, compareWithPython, readForeign } from '../foreign-reading.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';

const WORDS: readonly string[] = [
  "'descr'", "'<f4'", "'|V2'", "'|O'", "'fortran_order'", 'True', 'False', "'shape'", '(2,)', '()', '(1L, 2)', ', ', ': ',
  '{', '}', '\n', ' ', '#', '\\x3c', 'u', "''", '"""', '0x2', '1_0', '-1', '18446744073709551616', '\x93NUMPY\x01\0v\0',
]; // biome-ignore format: a table

function make(random: Random, corpus: Corpus): Buffer {
  return random.do(
    () => madeArray(random),
    () => madeArray(random),
    () => madeArrays(random),
    () => BYTES.mutate(corpus.pick(random), corpus.pick(random), random, WORDS),
  );
}

async function check(input: Buffer, place: Place): Promise<string> {
  const path = place.file(input);
  const here = await readForeign('numpy', path);
  if (here.code === undefined && here.leftOut.size === 0) {
    compareReadings('mapped and read arrays', here, await readForeign('opaque', path));
  }
  // NumPy has nothing to unpickle where only numbers are.
  const { verdict } = await scanPickle(path);
  if (here.code === undefined && verdict === 'safe')
    throw new Problem('arrays, but scanned as a checkpoint');
  if (here.code === undefined) {
    place.ask<readonly TensorFact[]>('numpy', (answer) => compareWithPython(here, answer, false));
  }
  return here.code ?? 'tensors';
}

export const npy: Target = {
  name: 'npy',
  about: 'arrays of NumPy, with numpy.load',
  sources: /^foreign\/numpy\//,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 500,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_NUMPY', 'SAFETENSORS_UNSUPPORTED_TENSOR'],
  asksPythonOf: 1,
  seeds: () => recordedFiles(({ family }) => family === 'numpy'),
  make,
  check,
};
