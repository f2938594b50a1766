/** A file of very many tensors: opened, and the memory of each handed out. */
import { join } from 'node:path';
import { type Driver, OURS, PYTHON_MAPPING } from '../drivers.js';
import { cell, formatDuration } from '../figures.js';
import { medianOf, reasonsOf } from '../measure.js';
import { manySmallTensors } from '../model.js';
import { measureReaders, selectAll } from '../readers.js';
import type { Section } from '../report.js';
import { atMost, beside, ofNode } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

const TENSORS = 100_000;
const DRIVERS: readonly Driver[] = [OURS, PYTHON_MAPPING];

/** What is collected meanwhile makes rounds differ: so many times as many. */
const ROUNDS_FACTOR = 5;

export async function manyBuffers(context: TrialContext): Promise<Section> {
  const { equipment, folder, signal } = context;
  const rounds = ROUNDS_FACTOR * context.rounds;
  const path = join(folder, 'many-buffers.safetensors');
  await writeSparseModel(path, manySmallTensors(TENSORS));
  const plan = { title: 'many buffers', path, rounds };
  const rows = await measureReaders(DRIVERS, plan, selectAll(path), equipment, signal);
  const open = (driver: Driver): number => medianOf(rows, driver, (result) => result.open);
  const all = (driver: Driver): number => medianOf(rows, driver, (result) => result.handedOut);
  return {
    title: `${TENSORS} tensors of 512 bytes, opened and handed out`,
    rows: [
      ['reader', 'open', 'all handed out'],
      ...DRIVERS.map((driver) => [
        driver.name,
        cell(open(driver), formatDuration),
        cell(all(driver), formatDuration),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      `medians of ${rounds}; every tensor of this package is an ArrayBuffer of its own, Python's are views of one mapping`,
    ],
    targets: [
      atMost(
        '100 000 buffers, opening included',
        all(OURS),
        ofNode(process.versions.node, { 20: 450, 22: 400, 24: 350 }),
        formatDuration,
        beside(formatDuration, { [PYTHON_MAPPING.name]: all(PYTHON_MAPPING) }),
      ),
    ],
  };
}
