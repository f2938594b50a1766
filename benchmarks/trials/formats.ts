/** The same weights in every format: one tensor, all of them, and a file of more than 2 GiB. */
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';
import type { FormatResult } from '../children/read-format.js';
import { showProgress } from '../command-line.js';
import type { Driver } from '../drivers.js';
import { copiesOf, type Equipment } from '../equipment.js';
import { cell, formatByteSize, formatDuration } from '../figures.js';
import {
  FORMATS,
  type FormatEntry,
  type Judgement,
  NOT_MEASURED,
  SAFETENSORS,
} from '../formats.js';
import { type CacheState, measure, medianOf, type Row, reasonsOf } from '../measure.js';
import { F8_NAME, mixedTensors } from '../model.js';
import { medianGrowth, refuseOtherBytes, selectMiddle } from '../readers.js';
import type { Section } from '../report.js';
import type { TrialContext } from '../trials.js';
import { writeModel } from '../write-model.js';

/** Smaller models are written as large as they are. */
const BYTES = 500_000_000;
/** Above 2 GiB, where lengths do not fit into 32 bits with a sign. */
const LARGE_BYTES = 2_200_000_000;
/** Runs with smaller models are tries; a model of 500 MB has a little less, or more. */
const LEAST_FOR_LARGE = 0.9 * BYTES;

/** Of the file: what a reader of one tensor may read, and what a reader without copies may hold. */
const SMALL_SHARE = 0.25;

type Rows = readonly Row<FormatResult>[];

/** The readers of some formats, each with the weights in its own. */
async function read(
  entries: readonly FormatEntry[],
  [title, what, rounds, cache]: readonly [string, string, number, CacheState?],
  equipment: Equipment,
  signal: AbortSignal,
): Promise<Row<FormatResult>[]> {
  const drivers = entries.map(({ driver }) => driver);
  const plan = { title, args: [equipment.programs, what], rounds, cache };
  const rows = await measure<FormatResult>(drivers, plan, equipment, signal);
  return refuseOtherBytes(rows, [SAFETENSORS.driver]);
}

/** For every format whether a file of more than 2 GiB is written and read. */
async function readLarge(context: TrialContext): Promise<Row<FormatResult>[]> {
  const { equipment, signal } = context;
  const folder = join(context.folder, 'large');
  await mkdir(folder);
  try {
    const path = join(folder, 'large.safetensors');
    showProgress('formats: writing more than 2 GiB');
    await writeModel(path, mixedTensors(LARGE_BYTES), signal);
    const rows: Row<FormatResult>[] = [];
    for (const entry of FORMATS) {
      const target = join(folder, 'copy');
      const fileOf = copiesOf(path, target, equipment, signal);
      const plan = ['more than 2 GiB', 'all', 1] as const;
      rows.push(...(await read([entry], plan, { ...equipment, fileOf }, signal)));
      await rm(`${target}.${entry.driver.format}`, { force: true });
    }
    return refuseOtherBytes(rows, [SAFETENSORS.driver]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function formats(context: TrialContext): Promise<Section> {
  const folder = join(context.folder, 'formats');
  await mkdir(folder);
  try {
    return await compareFormats({ ...context, folder });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function compareFormats(context: TrialContext): Promise<Section> {
  const { folder, rounds, signal } = context;
  const path = join(folder, 'model.safetensors');
  const byteLength = Math.min(BYTES, (await stat(context.path)).size);
  showProgress('formats: writing the weights');
  await writeModel(path, mixedTensors(byteLength), signal);
  const fileOf = copiesOf(path, join(folder, 'model'), context.equipment, signal);
  const equipment = { ...context.equipment, fileOf };
  const one = middleTensor(path);
  const cold = await read(
    FORMATS,
    ['one tensor, cold', one.name, rounds, 'cold'],
    equipment,
    signal,
  );
  const warm = await read(FORMATS, ['one tensor', one.name, rounds, 'warm'], equipment, signal);
  const all = await read(FORMATS, ['all tensors', 'all', rounds, 'warm'], equipment, signal);
  const large = byteLength < LEAST_FOR_LARGE ? [] : await readLarge(context);
  const { size } = await stat(path);
  return {
    title: `The same weights in every format: ${formatByteSize(byteLength)}, BF16, F32, F8`,
    rows: [
      [
        'format, its reader',
        'safe',
        'zero-copy',
        'lazy',
        'layout',
        '2.2 GB',
        'BF16 comes as',
        'F8 comes as',
        'read for one',
        'one tensor',
        'all',
        'RssAnon',
      ],
      ...FORMATS.map(({ driver, safe, layout }) => {
        const readBytes = medianOf(cold, driver, (result) => result.readBytes ?? Number.NaN);
        const anonymous = medianGrowth(all, driver, 'anonymous');
        const small = (bytes: number): Judgement | '–' =>
          Number.isNaN(bytes) ? '–' : bytes < SMALL_SHARE * size ? '✓' : '✗';
        return [
          driver.name,
          safe,
          small(anonymous),
          small(readBytes),
          layout,
          large.length === 0 ? '–' : resultsOf(driver, large).length > 0 ? '✓' : '✗',
          resultsOf(driver, all)[0]?.dtypes[one.name] ?? '–',
          resultsOf(driver, all)[0]?.dtypes[F8_NAME] ?? '–',
          cell(readBytes, formatByteSize),
          cell(everyByte(warm, driver), formatDuration),
          cell(everyByte(all, driver), formatDuration),
          cell(anonymous, formatByteSize),
        ];
      }),
    ],
    notes: [
      `one tensor: ${formatByteSize(one.byteLength)} in the middle of the file; "read for one" is what came from ` +
        'the disk for it, read ahead included',
      '"zero-copy" and "lazy" are ✓ where the figures beside them are below a quarter of the file',
      ...new Set([...reasonsOf(cold), ...reasonsOf(warm), ...reasonsOf(all)]),
      ...large.flatMap(({ driver, reason }) =>
        reason === undefined ? [] : [`2.2 GB: ${driver.name}: ${reason}`],
      ),
      ...NOT_MEASURED,
    ],
    targets: [],
  };
}

/** The largest tensor that lies over the middle of the data or behind it. */
function middleTensor(path: string): { name: string; byteLength: number } {
  const [index, , byteLength] = selectMiddle(path);
  using file = safeOpen(path);
  const name = file.offsetKeys()[Number(index)];
  if (name === undefined) throw new Error(`${path} has no tensors`);
  return { name, byteLength: Number(byteLength) };
}

function resultsOf(driver: Driver, rows: Rows): readonly FormatResult[] {
  return rows.find((row) => row.driver === driver)?.results ?? [];
}

function everyByte(rows: Rows, driver: Driver): number {
  return medianOf(rows, driver, (result) => result.everyByte);
}
