/** A checkpoint of very many small tensors written into fewer files, beside a copy of its files. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpoint } from 'safetensors-mmap';
import type { ReshardResult } from '../children/reshard.js';
import { showProgress } from '../command-line.js';
import { type Driver, node } from '../drivers.js';
import { writeExpertCheckpoint } from '../expert-checkpoint.js';
import { cell, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, NotMeasuredError, runChild } from '../run-child.js';
import { atMost, beside, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeModel } from '../write-model.js';

const TENSORS = 92_000;
const SOURCE_SHARDS = 163;
const TARGET_SHARDS = 8;
/** All tensors are as long as the scales of a matrix. */
const MATRIX = [64, 64] as const;
const TENSOR_BYTES = 4096;

const PLAIN = node('reshard, durable: false', 'reshard.js', 'reshard');
const PLAIN_COPY = node('cp', 'reshard.js', 'cp');
const DURABLE = node('reshard', 'reshard.js', 'reshard-durable');
const DURABLE_COPY = node('cp and sync', 'reshard.js', 'cp-durable');

/** What each is compared with. */
const COPIES: ReadonlyMap<Driver, Driver> = new Map([
  [PLAIN, PLAIN_COPY],
  [PLAIN_COPY, PLAIN_COPY],
  [DURABLE, DURABLE_COPY],
  [DURABLE_COPY, DURABLE_COPY],
]);

/** Throws NotMeasuredError unless the folder holds all tensors and an index that fits. */
async function requireWhole(folder: string): Promise<void> {
  using checkpoint = openCheckpoint(folder);
  await checkpoint.verify();
  if (checkpoint.size !== TENSORS) throw new NotMeasuredError(`wrote ${checkpoint.size} tensors`);
}

export async function reshardSmall(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  showProgress('reshard: writing the shards');
  const { index } = await writeExpertCheckpoint(
    join(context.folder, 'small'),
    TENSORS,
    SOURCE_SHARDS,
    { matrix: MATRIX, write: (path, tensors) => writeModel(path, tensors, signal) },
  );
  const target = join(context.folder, 'resharded');
  const shardBytes = Math.ceil(TENSORS / TARGET_SHARDS) * TENSOR_BYTES;
  const run = async (command: Command): Promise<ReshardResult> => {
    try {
      const result = await runChild<ReshardResult>(command, signal);
      await requireWhole(target);
      return result;
    } finally {
      await rm(target, { recursive: true, force: true });
    }
  };
  const drivers = [...COPIES.keys()];
  const plan = { title: 'reshard', path: index, args: [target, `${shardBytes}`], rounds, run };
  const rows = await measure<ReshardResult>(drivers, plan, equipment, signal);
  const time = (driver: Driver): number => medianOf(rows, driver, ({ elapsed }) => elapsed);
  const ratio = (driver: Driver): number => time(driver) / time(COPIES.get(driver) ?? driver);
  const reach = (ours: Driver, copy: Driver, limit: number): Target =>
    atMost(
      `${TENSORS} tensors of 4 kB, ${ours.name} against ${copy.name}`,
      ratio(ours),
      limit,
      formatRatio,
      beside(formatDuration, { ours: time(ours), [copy.name]: time(copy) }),
    );
  return {
    title: `${TENSORS} tensors of 4 kB in ${SOURCE_SHARDS} shards, written into ${TARGET_SHARDS}`,
    rows: [
      ['writer', 'time', 'of the copy'],
      ...drivers.map((driver) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell(ratio(driver), formatRatio),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      'cp copies the shards as they are; all of them are in the page cache',
    ],
    targets: [reach(PLAIN, PLAIN_COPY, 2), reach(DURABLE, DURABLE_COPY, 1.5)],
  };
}
