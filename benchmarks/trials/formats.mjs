/** The same weights in every format: one tensor, all of them, and a file of more than 2 GiB. */
import { statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pick } from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { formatByteSize } from '../figures.mjs';
import { F8_NAME, mixedTensors, writeModel } from '../models.mjs';
import { growthOf } from './reading.mjs';

/** Smaller models are written as large as they are. */
const BYTES = 500_000_000;
/** Above 2 GiB, where lengths do not fit into 32 bits with a sign. */
const LARGE_BYTES = 2_200_000_000;
/** Runs with smaller models are tries; a model of 500 MB has a little less, or more. */
const LEAST_FOR_LARGE = 0.9 * BYTES;
/** The tensor over the middle of the file of 500 MB, the largest. */
const ONE = 'model.layers.1.mlp.gate_proj.weight';
/** Shares of the file: how much a reader of one tensor may read, and a reader without copies may hold. */
const SMALL_SHARE = 0.25;

const READERS = pick(
  'formatSafetensors formatTorch formatPickleparser formatJpickle formatNumpy formatNpz formatHdf5 formatMessagePack formatArrow formatOnnx',
);
const TRUSTED = [READERS[0]];

/** As `copiesOf` of a file so large that the disk holds one copy at a time, in a folder for it alone. */
function singleCopiesOf(path, folder, python, signal) {
  let current;
  return async (format) => {
    if (current?.format !== format) {
      await rm(folder, { recursive: true, force: true });
      await mkdir(folder);
      current = { format, copy: copiesOf(path, join(folder, 'copy'), python, signal)(format) };
    }
    return current.copy;
  };
}

export const formats = {
  name: 'formats',
  prepare: async (bench) => {
    const byteLength = Math.min(BYTES, statSync(bench.path).size);
    const path = join(bench.folder, 'model.safetensors');
    await writeModel(path, mixedTensors(byteLength), bench.signal);
    if (byteLength < LEAST_FOR_LARGE) return { path, byteLength };
    const large = join(bench.folder, 'large.safetensors');
    await writeModel(large, mixedTensors(LARGE_BYTES), bench.signal);
    return { path, byteLength, large };
  },
  legs: ({ equipment, folder, rounds, signal }, { path, large }) => {
    const { programs, python } = equipment;
    const one = [programs, ONE];
    const all = [programs, '', ONE, F8_NAME];
    const base = { contenders: READERS, trusted: TRUSTED, compared: ['everyByte'] };
    const fileOf = copiesOf(path, join(folder, 'model'), python, signal);
    const legs = {
      cold: { ...base, rounds, fileOf, cache: 'cold', args: one },
      one: { ...base, rounds, fileOf, cache: 'warm', args: one },
      all: { ...base, rounds, fileOf, cache: 'warm', args: all },
    };
    if (large === undefined) return legs;
    const single = singleCopiesOf(large, join(folder, 'large'), python, signal);
    // In this order readers of the same format have the same copy.
    const order = (rows) => rows;
    return { ...legs, large: { ...base, rounds: 1, fileOf: single, order, args: all } };
  },
  figures: { anonymous: growthOf('anonymous') },
  values: ({ cold, one, all, large }, _, { path, byteLength }) => {
    const mark = (isTrue) => (isTrue ? '✓' : '✗');
    const limit = SMALL_SHARE * statSync(path).size;
    const isSmall = (bytes) => (Number.isNaN(bytes) ? '–' : mark(bytes < limit));
    const dtype = (at) => (reader) => all.lines(reader)[0]?.dtypes[at] ?? '–';
    return {
      safe: ({ safe }) => safe,
      layout: ({ layout }) => layout,
      zeroCopy: (reader) => isSmall(all.median(reader, growthOf('anonymous'))),
      lazy: (reader) => isSmall(cold.median(reader, 'readBytes')),
      large: (reader) => (large === undefined ? '–' : mark(large.lines(reader).length > 0)),
      bfloat16: dtype(0),
      float8: dtype(1),
      ...{ size: formatByteSize(byteLength), one: formatByteSize(one.median(READERS[0], 'bytes')) },
    };
  },
  page: `
    ## The same weights in every format: {size}, BF16, F32, F8
    | format, its reader | safe = $safe | zero-copy = $zeroCopy | lazy = $lazy | layout = $layout | 2.2 GB = $large | BF16 comes as = $bfloat16 | F8 comes as = $float8 | read for one = cold:readBytes MB | one tensor = one:everyByte | all = all:everyByte | RssAnon = all:anonymous MB |
    - one tensor: {one} in the middle of the file; "read for one" is what came from the disk for it, read ahead included
    - "zero-copy" and "lazy" are ✓ where the figures beside them are below a quarter of the file
    - {reasons cold one all}
    - 2.2 GB: {reasons large}
    - SavedModel was not measured: TensorFlow alone writes and reads it, and no package on npm reads its variables without TensorFlow itself
    - Cap'n Proto was not measured: it has no schema for tensors that files share, and no type of 16 bits for floats
    - npy was not measured: it holds one array; npz is an archive of such files`,
};
