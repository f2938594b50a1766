/** The same weights in every format: one tensor, all of them, and a file of more than 2 GiB. */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FORMATS } from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { formatByteSize, formatDuration } from '../figures.mjs';
import { Measured, refuseOtherBytes } from '../measure.mjs';
import { F8_NAME, mixedTensors, writeModel } from '../models.mjs';
import { selectAll, selectMiddle } from '../selection.mjs';
import { growthOf } from './reading.mjs';

/** Smaller models are written as large as they are. */
const BYTES = 500_000_000;
/** Above 2 GiB, where lengths do not fit into 32 bits with a sign. */
const LARGE_BYTES = 2_200_000_000;
/** Runs with smaller models are tries; a model of 500 MB has a little less, or more. */
const LEAST_FOR_LARGE = 0.9 * BYTES;
/** Of the file: what a reader of one tensor may read, and what a reader without copies may hold. */
const SMALL_SHARE = 0.25;

/** Formats without a row, and why. */
const NOT_MEASURED = [
  'SavedModel was not measured: TensorFlow alone writes and reads it, and no package on npm reads its variables ' +
    'without TensorFlow itself',
  "Cap'n Proto was not measured: it has no schema for tensors that files share, and no type of 16 bits " +
    'for floats',
  'npy was not measured: it holds one array; npz is an archive of such files',
];

const READERS = FORMATS.map(({ contender }) => contender);
const [OURS] = READERS;

const HEAD = [
  'format, its reader',
  'safe',
  'zero-copy',
  'lazy',
  'layout',
  '2.2 GB',
  'BF16 comes as',
  'F8 comes as',
];

export const formats = {
  name: 'formats',
  prepare: async (bench) => {
    const byteLength = Math.min(BYTES, (await stat(bench.path)).size);
    const path = join(bench.folder, 'model.safetensors');
    await writeModel(path, mixedTensors(byteLength), bench.signal);
    const large = join(bench.folder, 'large.safetensors');
    const isLarge = byteLength >= LEAST_FOR_LARGE;
    if (isLarge) await writeModel(large, mixedTensors(LARGE_BYTES), bench.signal);
    return { path, byteLength, large: isLarge ? large : undefined };
  },
  legs: ({ equipment, folder, rounds, signal }, { path, large }) => {
    const { programs, python } = equipment;
    const one = selectMiddle(path);
    const told = [one[3], F8_NAME];
    const base = { trusted: [OURS], figures: ['everyByte'] };
    const own = {
      ...base,
      contenders: READERS,
      rounds,
      fileOf: copiesOf(path, join(folder, 'model'), python, signal),
    };
    const readAll = (file) => [programs, ...selectAll(file), ...told];
    const legs = {
      cold: { ...own, cache: 'cold', args: [programs, ...one] },
      one: { ...own, cache: 'warm', args: [programs, ...one] },
      all: { ...own, cache: 'warm', args: readAll(path) },
    };
    for (const contender of large === undefined ? [] : READERS) {
      const target = join(folder, 'copy');
      const fileOf = copiesOf(large, target, python, signal);
      const end = () => rm(`${target}.${contender.format}`, { force: true });
      const args = readAll(large);
      legs[`2.2 GB: ${contender.name}`] = {
        ...base,
        contenders: [contender],
        rounds: 1,
        fileOf,
        args,
        end,
      };
    }
    return legs;
  },
  report: ({ cold, one, all, ...legs }, _, { path, byteLength }) => {
    const large = refuseOtherBytes(Measured.of(...Object.values(legs)), [OURS]);
    const fileBytes = selectAll(path).map(Number)[2];
    const [, , oneBytes] = selectMiddle(path).map(Number);
    const isSmall = (bytes) =>
      Number.isNaN(bytes) ? '–' : bytes < SMALL_SHARE * fileBytes ? '✓' : '✗';
    return {
      title: `The same weights in every format: ${formatByteSize(byteLength)}, BF16, F32, F8`,
      rows: [
        [...HEAD, 'read for one', 'one tensor', 'all', 'RssAnon'],
        ...FORMATS.map(({ contender, safe, layout }) => {
          const readBytes = cold.median(contender, 'readBytes');
          const anonymous = all.median(contender, growthOf('anonymous'));
          const [bfloat16, float8] = all.lines(contender)[0]?.dtypes ?? ['–', '–'];
          const isRead = large.lines(contender).length > 0;
          return [
            contender.name,
            safe,
            isSmall(anonymous),
            isSmall(readBytes),
            layout,
            large.rows.length === 0 ? '–' : isRead ? '✓' : '✗',
            bfloat16,
            float8,
            formatByteSize(readBytes),
            formatDuration(one.median(contender, 'everyByte')),
            formatDuration(all.median(contender, 'everyByte')),
            formatByteSize(anonymous),
          ];
        }),
      ],
      notes: [
        `one tensor: ${formatByteSize(oneBytes)} in the middle of the file; "read for one" is what came from ` +
          'the disk for it, read ahead included',
        '"zero-copy" and "lazy" are ✓ where the figures beside them are below a quarter of the file',
        ...new Set(Measured.of(cold, one, all).reasons),
        ...large.rows.flatMap(({ contender, reason }) =>
          reason === undefined ? [] : [`2.2 GB: ${contender.name}: ${reason}`],
        ),
        ...NOT_MEASURED,
      ],
      targets: [],
    };
  },
};
