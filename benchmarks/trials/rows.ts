/** Rows of an embedding table: taken in one call, beside a loop of slices. */
import { join } from 'node:path';
import type { RowsResult } from '../children/rows.js';
import { showProgress } from '../command-line.js';
import { type Driver, node } from '../drivers.js';
import { cell, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { atLeast } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeModel } from '../write-model.js';

/** The table of a model with 7 billion parameters: 262 MB. */
const SHAPE = [32_000, 4096] as const;

/** How many rows are taken at once: the tokens of a text. */
const TAKEN_ROWS = 512;

const LOOP = node('slices in a loop', 'rows.js', 'slices');
const TAKE = node('take', 'rows.js', 'take');
const TAKE_ASYNC = node('takeAsync', 'rows.js', 'takeAsync');
const LOOP_FLOAT32 = node('slices in a loop, float32', 'rows.js', 'slices-float32');
const TAKE_FLOAT32 = node('takeFloat32', 'rows.js', 'takeFloat32');
const TAKE_FLOAT32_ASYNC = node('takeFloat32Async', 'rows.js', 'takeFloat32Async');

/** What each is compared with. */
const LOOPS: ReadonlyMap<Driver, Driver> = new Map([
  [LOOP, LOOP],
  [TAKE, LOOP],
  [TAKE_ASYNC, LOOP],
  [LOOP_FLOAT32, LOOP_FLOAT32],
  [TAKE_FLOAT32, LOOP_FLOAT32],
  [TAKE_FLOAT32_ASYNC, LOOP_FLOAT32],
]);

/** Throws unless all methods of a kind wrote the same. */
function refuseOtherSums(measured: readonly Row<RowsResult>[]): void {
  const sums = new Map<Driver | undefined, number>();
  for (const { driver, results } of measured) {
    for (const { sum } of results) {
      const loop = LOOPS.get(driver);
      if ((sums.get(loop) ?? sum) !== sum) throw new Error(`${driver.name} took other rows`);
      sums.set(loop, sum);
    }
  }
}

export async function rows(context: TrialContext): Promise<Section> {
  const { equipment, folder, rounds, signal } = context;
  const path = join(folder, 'table.safetensors');
  const [rowCount, width] = SHAPE;
  showProgress('rows: writing a table');
  const table = { name: 'table', dtype: 'BF16', shape: [rowCount, width] };
  await writeModel(path, [{ ...table, byteLength: rowCount * width * 2 }], signal);
  const drivers = [...LOOPS.keys()];
  const plan = { title: 'rows', path, args: [`${TAKEN_ROWS}`], rounds };
  const warm = await measure<RowsResult>(drivers, { ...plan, cache: 'warm' }, equipment, signal);
  const cold = await measure<RowsResult>(drivers, { ...plan, cache: 'cold' }, equipment, signal);
  const again = (driver: Driver): number => medianOf(warm, driver, (result) => result.again);
  const first = (driver: Driver): number => medianOf(cold, driver, (result) => result.first);
  const held = (driver: Driver): number => medianOf(cold, driver, (result) => result.held);
  const gain = (driver: Driver, time: (driver: Driver) => number): number =>
    time(LOOPS.get(driver) ?? driver) / time(driver);
  refuseOtherSums([...warm, ...cold]);
  return {
    title: `${TAKEN_ROWS} rows of 8 kB, BF16, scattered over a table of ${rowCount} rows`,
    rows: [
      ['what', 'page cache', 'gain', 'from the disk', 'gain', 'event loop held'],
      ...drivers.map((driver) => [
        driver.name,
        cell(again(driver), formatDuration),
        cell(gain(driver, again), formatRatio),
        cell(first(driver), formatDuration),
        cell(gain(driver, first), formatRatio),
        cell(held(driver), formatDuration),
      ]),
    ],
    notes: [
      ...reasonsOf([...warm, ...cold]),
      'into an array used again; "event loop held": the longest time, from the disk',
    ],
    targets: [
      atLeast(
        'takeFloat32, page cache: faster than slices',
        gain(TAKE_FLOAT32, again),
        2,
        formatRatio,
      ),
      atLeast(
        'takeFloat32Async, from the disk: faster than slices',
        gain(TAKE_FLOAT32_ASYNC, first),
        10,
        formatRatio,
      ),
    ],
  };
}
