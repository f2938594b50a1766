/** Files with many tensors, opened as the first file of a process, and their names listed. */
import { join } from 'node:path';
import { type Driver, NUMPY_REFERENCE, node, python } from '../drivers.js';
import { cell, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import { manySmallTensors } from '../model.js';
import { atLeast, atMost, type Section } from '../report.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

const OPEN = node('open', 'open-header.js', 'open');
const KEYS = node('open + keys()', 'open-header.js', 'keys');
const JSON_PARSE = node('JSON.parse + checks', 'open-header.js', 'json');
const JSON_KEYS = node('JSON.parse + checks, names sorted', 'open-header.js', 'json-keys');
const REFERENCE = python('Python open', 'open_header.py', 'open', NUMPY_REFERENCE);
const REFERENCE_KEYS = python('Python open + keys()', 'open_header.py', 'keys', NUMPY_REFERENCE);
const JAVASCRIPT: readonly Driver[] = [OPEN, KEYS, JSON_PARSE, JSON_KEYS];
const DRIVERS: readonly Driver[] = [...JAVASCRIPT, REFERENCE, REFERENCE_KEYS];

/** Short measurements are noisy, and so are their ratios. */
const SHORT_ROUNDS = 40;
const SHORT_UP_TO = 10_000;

/** What the first open of the model may take: Node 20 is slower to load the addon. */
const FIRST_OPEN_MS = process.versions.node.startsWith('20.') ? 1.5 : 1.2;

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

export async function headers(context: TrialContext): Promise<Section> {
  const { equipment, folder, signal } = context;
  const times = new Map<Rung, (driver: Driver) => number>();
  const notes = new Set<string>();
  for (const rung of RUNGS) {
    const { label, count, indent } = rung;
    const path = count === undefined ? context.path : join(folder, `${label}.safetensors`);
    if (count !== undefined) await writeSparseModel(path, manySmallTensors(count), indent);
    const isShort = (count ?? 0) <= SHORT_UP_TO;
    const rounds = isShort ? SHORT_ROUNDS : context.rounds;
    const plan = { title: `headers of ${label} tensors`, path };
    const inTurns = await measure<number>(JAVASCRIPT, { ...plan, rounds }, equipment, signal);
    const references = await measure<number>(
      [REFERENCE, REFERENCE_KEYS],
      { ...plan, rounds: context.rounds },
      equipment,
      signal,
    );
    const rows = [...inTurns, ...references];
    times.set(rung, (driver) => medianOf(rows, driver, (elapsed) => elapsed));
    for (const reason of reasonsOf(rows)) notes.add(reason);
  }
  const time = (rung: Rung, driver: Driver): number => times.get(rung)?.(driver) ?? Number.NaN;
  const ratio = (rung: Rung): number => time(rung, KEYS) / time(rung, JSON_KEYS);
  return {
    title: 'Headers of many tensors, opened in a fresh process',
    rows: [
      ['tensors', ...DRIVERS.map(({ name }) => name)],
      ...RUNGS.map((rung) => [
        rung.label,
        ...DRIVERS.map((driver) => cell(time(rung, driver), formatDuration)),
      ]),
    ],
    notes: [
      ...notes,
      `JavaScript up to ${SHORT_UP_TO} tensors: medians of ${SHORT_ROUNDS}`,
      'the first open of a process also loads the addon, which JSON.parse has no use for',
      'JSON.parse + checks does not notice a name that comes twice',
    ],
    targets: [
      atMost(
        `the model, first open of a process: at most ${FIRST_OPEN_MS} ms`,
        time(MODEL, OPEN),
        FIRST_OPEN_MS,
      ),
      ...[THOUSAND, TEN_THOUSAND].map((rung) =>
        atMost(
          `${rung.label} tensors, open + keys(): at most 1.15 × JSON.parse + checks`,
          ratio(rung),
          1.15,
        ),
      ),
      atMost('100 000 tensors, open + keys(): at most 60 ms', time(HUNDRED_THOUSAND, KEYS), 60),
      atLeast(
        '100 000 tensors, open: at least 2.5 × faster than JSON.parse + checks',
        time(HUNDRED_THOUSAND, JSON_PARSE) / time(HUNDRED_THOUSAND, OPEN),
        2.5,
      ),
      atMost(
        '100 000 tensors, indented, open + keys(): at most 1 × JSON.parse + checks',
        ratio(UNUSUAL),
        1,
      ),
      atLeast(
        '100 000 tensors, open + keys(): at least 2 × faster than the reference',
        time(HUNDRED_THOUSAND, REFERENCE_KEYS) / time(HUNDRED_THOUSAND, KEYS),
        2,
      ),
      atMost('1 000 000 tensors, open: at most 1.5 s', time(MILLION, OPEN) / 1e3, 1.5),
      atLeast(
        '1 000 000 tensors, open: at least 3 × faster than the reference',
        time(MILLION, REFERENCE) / time(MILLION, OPEN),
        3,
      ),
    ],
  };
}
