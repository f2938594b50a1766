/** The same weights in every format: one tensor, all of them, and a file of more than 2 GiB. */
import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pick } from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { formatByteSize } from '../figures.mjs';
import { Measured, refuseOtherBytes } from '../measure.mjs';
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

export const formats = {
  name: 'formats',
  contenders: READERS,
  prepare: async (bench) => {
    const byteLength = Math.min(BYTES, statSync(bench.path).size);
    const path = join(bench.folder, 'model.safetensors');
    await writeModel(path, mixedTensors(byteLength), bench.signal);
    const large = join(bench.folder, 'large.safetensors');
    const isLarge = byteLength >= LEAST_FOR_LARGE;
    if (isLarge) await writeModel(large, mixedTensors(LARGE_BYTES), bench.signal);
    return { path, byteLength, large: isLarge ? large : undefined };
  },
  legs: ({ equipment, folder, rounds, signal }, { path, large }) => {
    const { programs, python } = equipment;
    const one = [programs, ONE];
    const all = [programs, '', ONE, F8_NAME];
    const base = { trusted: TRUSTED, compared: ['everyByte'] };
    const fileOf = copiesOf(path, join(folder, 'model'), python, signal);
    const own = { ...base, contenders: READERS, rounds, fileOf };
    const legs = {
      cold: { ...own, cache: 'cold', args: one },
      one: { ...own, cache: 'warm', args: one },
      all: { ...own, cache: 'warm', args: all },
    };
    for (const contender of large === undefined ? [] : READERS) {
      const target = join(folder, 'copy');
      const fileOf = copiesOf(large, target, python, signal);
      const end = () => rm(`${target}.${contender.format}`, { force: true });
      const leg = { ...base, contenders: [contender], rounds: 1, fileOf, args: all, end };
      legs[`2.2 GB, ${contender.name}`] = leg;
    }
    return legs;
  },
  figures: { anonymous: growthOf('anonymous') },
  values: ({ cold, one, all, ...legs }, _, { path, byteLength }) => {
    const large = refuseOtherBytes(Measured.of(...Object.values(legs)), TRUSTED);
    const fileBytes = statSync(path).size;
    const isSmall = (bytes) =>
      Number.isNaN(bytes) ? '–' : bytes < SMALL_SHARE * fileBytes ? '✓' : '✗';
    const dtype = (at) => (reader) => all.lines(reader)[0]?.dtypes[at] ?? '–';
    const largeReasons = large.rows.flatMap(({ contender, reason }) =>
      reason === undefined ? [] : [`- 2.2 GB: ${contender.name}: ${reason}`],
    );
    return {
      safe: ({ safe }) => safe,
      layout: ({ layout }) => layout,
      zeroCopy: (reader) => isSmall(all.median(reader, growthOf('anonymous'))),
      lazy: (reader) => isSmall(cold.median(reader, 'readBytes')),
      large: (reader) =>
        large.rows.length === 0 ? '–' : large.lines(reader).length > 0 ? '✓' : '✗',
      bfloat16: dtype(0),
      float8: dtype(1),
      ...{ size: formatByteSize(byteLength), one: formatByteSize(one.median(READERS[0], 'bytes')) },
      ownReasons: [...new Set(Measured.of(cold, one, all).reasons)]
        .map((text) => `- ${text}`)
        .join('\n'),
      largeReasons: largeReasons.join('\n'),
    };
  },
  page: `
    ## The same weights in every format: {size}, BF16, F32, F8
    | format, its reader | safe = $safe | zero-copy = $zeroCopy | lazy = $lazy | layout = $layout | 2.2 GB = $large | BF16 comes as = $bfloat16 | F8 comes as = $float8 | read for one = cold:readBytes MB | one tensor = one:everyByte | all = all:everyByte | RssAnon = all:anonymous MB |
    - one tensor: {one} in the middle of the file; "read for one" is what came from the disk for it, read ahead included
    - "zero-copy" and "lazy" are ✓ where the figures beside them are below a quarter of the file
    {ownReasons}
    {largeReasons}
    - SavedModel was not measured: TensorFlow alone writes and reads it, and no package on npm reads its variables without TensorFlow itself
    - Cap'n Proto was not measured: it has no schema for tensors that files share, and no type of 16 bits for floats
    - npy was not measured: it holds one array; npz is an archive of such files`,
};
