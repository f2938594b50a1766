/** A checkpoint of very many tensors: its index read, one tensor taken, every header checked. */
import { join } from 'node:path';
import type { OpenCheckpointResult } from '../children/open-checkpoint.js';
import { showProgress } from '../command-line.js';
import { type Driver, NUMPY_REFERENCE, node, python } from '../drivers.js';
import { writeExpertCheckpoint } from '../expert-checkpoint.js';
import { cell, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, NotMeasuredError, runChild } from '../run-child.js';
import { atLeast, atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

const SHARDS = 163;
const TENSORS = 92_000;

const OURS = 'safetensors-mmap';
const REFERENCE = 'Python json.load, safe_open';

/** Ours, and the reference where it can do the same. */
function pair(method: string): [Driver, Driver] {
  return [
    node(OURS, 'open-checkpoint.js', method),
    python(REFERENCE, 'open_checkpoint.py', method, NUMPY_REFERENCE),
  ];
}

const OPEN = node(OURS, 'open-checkpoint.js', 'open');
const ONE_TENSOR = pair('tensor');
const VERIFY = pair('verify');

export async function checkpoint(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  showProgress('checkpoint: writing its shards');
  const folder = join(context.folder, 'experts');
  const { index, scales } = await writeExpertCheckpoint(folder, TENSORS, SHARDS);
  const run = async (command: Command): Promise<number> => {
    const { elapsed, tensors } = await runChild<OpenCheckpointResult>(command, signal);
    if (tensors !== TENSORS) throw new NotMeasuredError(`saw ${tensors} of ${TENSORS} tensors`);
    return elapsed;
  };
  const plan = { title: 'checkpoint', path: index, args: [scales], rounds, run };
  const rows = await measure([OPEN, ...ONE_TENSOR, ...VERIFY], plan, equipment, signal);
  const time = (driver: Driver): number => medianOf(rows, driver, (elapsed) => elapsed);
  const ratio = ([ours, reference]: [Driver, Driver]): number => time(reference) / time(ours);
  const line = (what: string, drivers: [Driver, Driver]): string[] => [
    what,
    ...drivers.map((driver) => cell(time(driver), formatDuration)),
    cell(ratio(drivers), formatRatio),
  ];
  return {
    title: `A checkpoint of ${SHARDS} shards and ${TENSORS} tensors, opened in a fresh process`,
    rows: [
      ['what', OURS, REFERENCE, 'ratio'],
      ['index only', cell(time(OPEN), formatDuration), '–', '–'],
      line('index, one tensor of 4 kB', ONE_TENSOR),
      line('every header checked', VERIFY),
    ],
    notes: [
      ...reasonsOf(rows),
      'sparse files: nothing but headers is read, and those are in the page cache',
    ],
    targets: [
      atMost(
        `${SHARDS} shards, ${TENSORS} tensors, open and verify`,
        time(VERIFY[0]),
        80,
        formatDuration,
        beside(formatDuration, { [REFERENCE]: time(VERIFY[1]) }),
      ),
      atLeast(
        `${SHARDS} shards, open and verify: faster than Python`,
        ratio(VERIFY),
        3,
        formatRatio,
        beside(formatDuration, { ours: time(VERIFY[0]), theirs: time(VERIFY[1]) }),
      ),
    ],
  };
}
