/** Files with many tensors, opened as the first file of a process, and their names listed. */
import { join } from 'node:path';
import type { OpenHeaderResult } from '../children/open-header.js';
import { type Driver, NUMPY_REFERENCE, node, python } from '../drivers.js';
import { cell, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import { manySmallTensors } from '../model.js';
import type { Section } from '../report.js';
import { atLeast, atMost, beside, ofNode, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

const OPEN = node('open', 'open-header.js', 'open');
const KEYS = node('open + keys()', 'open-header.js', 'keys');
const JSON_PARSE = node('JSON.parse + checks', 'open-header.js', 'json');
const JSON_KEYS = node('JSON.parse + checks, names sorted', 'open-header.js', 'json-keys');
const REFERENCE = python('Python open', 'open_header.py', 'open', NUMPY_REFERENCE);
const REFERENCE_KEYS = python('Python open + keys()', 'open_header.py', 'keys', NUMPY_REFERENCE);
const OURS: readonly Driver[] = [OPEN, KEYS];
const JAVASCRIPT: readonly Driver[] = [...OURS, JSON_PARSE, JSON_KEYS];
const DRIVERS: readonly Driver[] = [...JAVASCRIPT, REFERENCE, REFERENCE_KEYS];

/** Short measurements are noisy, and so are their ratios. */
const SHORT_ROUNDS = 40;
const SHORT_UP_TO = 10_000;
/** Calls after the first one of a process, of short measurements. */
const LATER_CALLS = 20;
/** Rivals take half a minute for a file of more. */
const LONG_ABOVE = 100_000;

/** What the first open of the model may take: Node 20 is slower to load the addon. */
const FIRST_OPEN_MS = ofNode(process.versions.node, { 20: 1.5, 22: 1.2, 24: 1.2 });

/** A file of so many tensors; without a count the model. */
interface Rung {
  readonly label: string;
  readonly count?: number;
  /** Blanks before the members of the header's JSON, which is usually in one line. */
  readonly indent?: number;
}

const MODEL: Rung = { label: 'the model' };
const THOUSAND: Rung = { label: '1 000', count: 1000 };
const TEN_THOUSAND: Rung = { label: '10 000', count: 10_000 };
const HUNDRED_THOUSAND: Rung = { label: '100 000', count: 100_000 };
const MILLION: Rung = { label: '1 000 000', count: 1_000_000 };
const UNUSUAL_THOUSAND: Rung = { label: '1 000, indented', count: 1000, indent: 1 };
const UNUSUAL: Rung = { label: '100 000, indented', count: 100_000, indent: 1 };
const RUNGS: readonly Rung[] = [
  MODEL,
  THOUSAND,
  TEN_THOUSAND,
  HUNDRED_THOUSAND,
  MILLION,
  UNUSUAL_THOUSAND,
  UNUSUAL,
];

/** Median times of one rung. */
interface Times {
  first(driver: Driver): number;
  later(driver: Driver): number;
}

/** Opens the file of a rung in fresh processes. */
async function measureRung(
  { count = 0, label }: Rung,
  path: string,
  { equipment, rounds, signal }: TrialContext,
): Promise<Row<OpenHeaderResult>[]> {
  const isShort = count <= SHORT_UP_TO;
  const roundsOf = (driver: Driver): number => {
    if (isShort && JAVASCRIPT.includes(driver)) return SHORT_ROUNDS;
    return count > LONG_ABOVE && !OURS.includes(driver) ? 1 : rounds;
  };
  const args = [String(isShort ? LATER_CALLS : 0)];
  const plan = { title: `headers of ${label} tensors`, path, args, rounds: roundsOf };
  return await measure<OpenHeaderResult>(DRIVERS, plan, equipment, signal);
}

export async function headers(context: TrialContext): Promise<Section> {
  const times = new Map<Rung, Times>();
  const notes = new Set<string>();
  for (const rung of RUNGS) {
    const { label, count, indent } = rung;
    const path = count === undefined ? context.path : join(context.folder, `${label}.safetensors`);
    if (count !== undefined) await writeSparseModel(path, manySmallTensors(count), { indent });
    const rows = await measureRung(rung, path, context);
    times.set(rung, {
      first: (driver) => medianOf(rows, driver, ({ first }) => first),
      later: (driver) => medianOf(rows, driver, ({ later }) => later ?? Number.NaN),
    });
    for (const reason of reasonsOf(rows)) notes.add(reason);
  }
  const time = (rung: Rung, driver: Driver): number => times.get(rung)?.first(driver) ?? Number.NaN;
  const lines = RUNGS.flatMap((rung) =>
    (['first', 'later'] as const).map((call) => ({ rung, call, times: times.get(rung)?.[call] })),
  );
  /** The names of a file, beside what the best rival in JavaScript takes. */
  const ratioOf = (rung: Rung, limit: number): Target =>
    atMost(
      `${rung.label} tensors, open + keys() against ${JSON_KEYS.name}`,
      time(rung, KEYS) / time(rung, JSON_KEYS),
      limit,
      formatRatio,
      beside(formatDuration, { ours: time(rung, KEYS), theirs: time(rung, JSON_KEYS) }),
    );
  /** How much faster than another. */
  const gainOf = (rung: Rung, ours: Driver, theirs: Driver, limit: number): Target =>
    atLeast(
      `${rung.label} tensors, ${ours.name}: faster than ${theirs.name}`,
      time(rung, theirs) / time(rung, ours),
      limit,
      formatRatio,
      beside(formatDuration, { ours: time(rung, ours), theirs: time(rung, theirs) }),
    );
  /** The same call of rivals, in the same run. */
  const rivals = (rung: Rung, ...drivers: readonly Driver[]): string =>
    beside(
      formatDuration,
      Object.fromEntries(drivers.map((other) => [other.name, time(rung, other)])),
    );
  return {
    title: 'Headers of many tensors, opened in a fresh process',
    rows: [
      ['tensors', ...DRIVERS.map(({ name }) => name)],
      ...lines
        .filter(({ times }) => DRIVERS.some((driver) => !Number.isNaN(times?.(driver))))
        .map(({ rung, call, times }) => [
          call === 'first' ? rung.label : `${rung.label}, later calls`,
          ...DRIVERS.map((driver) => cell(times?.(driver) ?? Number.NaN, formatDuration)),
        ]),
    ],
    notes: [
      ...notes,
      `JavaScript up to ${SHORT_UP_TO} tensors: medians of ${SHORT_ROUNDS}; rivals above ${LONG_ABOVE}: one process`,
      `the first call of a process, then medians of ${LATER_CALLS} later calls of the same process, for every reader`,
      'the first open of a process also loads the addon, which JSON.parse has no use for',
      'JavaScript: young garbage of the imports is collected before the first call',
      'JSON.parse + checks does not notice a name that comes twice',
    ],
    targets: [
      atMost(
        'open, 147 tensors, first of the process',
        time(MODEL, OPEN),
        FIRST_OPEN_MS,
        formatDuration,
        rivals(MODEL, JSON_PARSE, REFERENCE),
      ),
      ratioOf(THOUSAND, 1.15),
      ratioOf(TEN_THOUSAND, 1.15),
      atMost(
        '100 000 tensors, open + keys()',
        time(HUNDRED_THOUSAND, KEYS),
        60,
        formatDuration,
        rivals(HUNDRED_THOUSAND, JSON_KEYS, REFERENCE_KEYS),
      ),
      gainOf(HUNDRED_THOUSAND, OPEN, JSON_PARSE, 2.5),
      ratioOf(UNUSUAL, 1),
      gainOf(HUNDRED_THOUSAND, KEYS, REFERENCE_KEYS, 2),
      atMost('1 000 000 tensors, open', time(MILLION, OPEN), 1500, formatDuration),
      gainOf(MILLION, OPEN, REFERENCE, 3),
    ],
  };
}
