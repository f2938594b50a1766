/** Files with many tensors: opened, and their names listed. */
import { join } from 'node:path';
import { type Driver, NUMPY_REFERENCE, node, python } from '../drivers.js';
import { cell, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import { manySmallTensors } from '../model.js';
import { atLeast, atMost, type Section } from '../report.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

const COUNTS = [1000, 100_000, 1_000_000] as const;

const OPEN = node('open', 'open-header.js', 'open');
const KEYS = node('open + keys()', 'open-header.js', 'keys');
const JSON_PARSE = node('JSON.parse + checks', 'open-header.js', 'json');
const REFERENCE = python('Python open', 'open_header.py', 'open', NUMPY_REFERENCE);
const REFERENCE_KEYS = python('Python open + keys()', 'open_header.py', 'keys', NUMPY_REFERENCE);
const DRIVERS: readonly Driver[] = [OPEN, KEYS, JSON_PARSE, REFERENCE, REFERENCE_KEYS];

export async function headers(context: TrialContext): Promise<Section> {
  const { equipment, folder, rounds, signal } = context;
  const times = new Map<number, (driver: Driver) => number>();
  const notes = new Set<string>();
  for (const count of COUNTS) {
    const path = join(folder, `${count}.safetensors`);
    await writeSparseModel(path, manySmallTensors(count));
    const plan = { title: `headers of ${count} tensors`, path, rounds };
    const rows = await measure<number>(DRIVERS, plan, equipment, signal);
    times.set(count, (driver) => medianOf(rows, driver, (elapsed) => elapsed));
    for (const reason of reasonsOf(rows)) notes.add(reason);
  }
  const time = (count: (typeof COUNTS)[number], driver: Driver): number =>
    times.get(count)?.(driver) ?? Number.NaN;
  return {
    title: 'Headers of many tensors, opened in a fresh process',
    rows: [
      ['tensors', ...DRIVERS.map(({ name }) => name)],
      ...COUNTS.map((count) => [
        count.toLocaleString('en').replaceAll(',', ' '),
        ...DRIVERS.map((driver) => cell(time(count, driver), formatDuration)),
      ]),
    ],
    notes: [...notes, 'JSON.parse + checks does not notice a name that comes twice'],
    targets: [
      atLeast(
        '100 000 tensors, open: at least 2.5 × faster than JSON.parse + checks',
        time(100_000, JSON_PARSE) / time(100_000, OPEN),
        2.5,
      ),
      atLeast(
        '100 000 tensors, open + keys(): at least 2 × faster than the reference',
        time(100_000, REFERENCE_KEYS) / time(100_000, KEYS),
        2,
      ),
      atMost('1 000 000 tensors, open: at most 1.5 s', time(1_000_000, OPEN) / 1e3, 1.5),
      atLeast(
        '1 000 000 tensors, open: at least 3 × faster than the reference',
        time(1_000_000, REFERENCE) / time(1_000_000, OPEN),
        3,
      ),
    ],
  };
}
