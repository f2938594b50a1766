/** A checkpoint of torch converted to safetensors, beside a copy of it and the reference's steps. */
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConvertCheckpointResult } from '../children/convert-checkpoint.js';
import { freeTemporaryBytes, showProgress } from '../command-line.js';
import { type Driver, node, python, TORCH_REFERENCE } from '../drivers.js';
import { copiesOf, type Equipment } from '../equipment.js';
import { cell, formatByteSize, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, NotMeasuredError, runChild } from '../run-child.js';
import { atLeast, atMost, beside, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';
import { haveSameBytes } from './save.js';

const SCRIPT = 'convert-checkpoint.js';
const VERIFIED = node('convert', SCRIPT, 'verified', [], 'torch');
const UNVERIFIED = node('convert, verify: false', SCRIPT, 'unverified', [], 'torch');
const COPY = node('cp', SCRIPT, 'cp', [], 'torch');
const REFERENCE = python(
  'the steps of convert.py, Python',
  'convert_checkpoint.py',
  '-',
  TORCH_REFERENCE,
  'torch',
);
const CONVERTERS: readonly Driver[] = [COPY, UNVERIFIED, VERIFIED, REFERENCE];

/** Copies and conversions vary more than readers. */
const LEAST_ROUNDS = 5;

/** A single tensor of 6 GB, tried beside models of 2 GB and more. */
const LARGE_TENSOR = { name: 'weight', dtype: 'BF16', shape: [732_424, 4096] };
const LARGE_BYTES = 732_424 * 4096 * 2;
/** A model of 2 GB has a little less, or more. */
const LEAST_MODEL_FOR_LARGE = 1.9e9;

type Rows = readonly Row<ConvertCheckpointResult>[];

/** Converts the weights of a safetensors file, which were saved by torch; the outcome must be that file. */
function convertAll(
  path: string,
  [rounds, equipment]: readonly [number, Equipment],
  signal: AbortSignal,
): Promise<Row<ConvertCheckpointResult>[]> {
  // By this extension `convert` knows that it is asked for one file.
  const target = `${path}.converted.safetensors`;
  const run = async (command: Command): Promise<ConvertCheckpointResult> => {
    try {
      const result = await runChild<ConvertCheckpointResult>(command, signal);
      const expected = command.args.includes('cp') ? await equipment.fileOf('torch') : path;
      if (!(await haveSameBytes(expected, target))) throw new NotMeasuredError('wrote other bytes');
      return result;
    } finally {
      await rm(target, { force: true });
    }
  };
  const plan = { title: 'converting', args: [target], cache: 'warm', rounds, run } as const;
  return measure(CONVERTERS, plan, equipment, signal);
}

/** The same for one tensor of 6 GB; a text says why not. */
async function convertLarge(
  context: TrialContext,
): Promise<Row<ConvertCheckpointResult>[] | string> {
  const { equipment, signal } = context;
  if ((await stat(context.path)).size < LEAST_MODEL_FOR_LARGE) return 'it is for models of 2 GB';
  // The checkpoint and what is made of it; the tensor itself is a hole.
  if ((await freeTemporaryBytes()) < 2 * LARGE_BYTES) return 'too little disk';
  const folder = join(context.folder, 'large-tensor');
  await mkdir(folder);
  try {
    showProgress('converting: writing 6 GB');
    const path = join(folder, 'large.safetensors');
    await writeSparseModel(path, [{ ...LARGE_TENSOR, byteLength: LARGE_BYTES }], {
      metadata: { format: 'pt' },
    });
    const fileOf = copiesOf(path, join(folder, 'large'), equipment, signal);
    return await convertAll(path, [1, { ...equipment, fileOf }], signal);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function convertPickle(context: TrialContext): Promise<Section> {
  const { equipment, path, signal } = context;
  const rounds = Math.max(context.rounds, LEAST_ROUNDS);
  const rows = await convertAll(path, [rounds, equipment], signal);
  const tried = await convertLarge(context);
  const large = typeof tried === 'string' ? [] : tried;
  const time = (driver: Driver, from: Rows = rows): number =>
    medianOf(from, driver, ({ elapsed }) => elapsed);
  const peak = (driver: Driver, from: Rows = rows): number =>
    medianOf(from, driver, (result) => result.peak ?? Number.NaN);
  const againstCopy = (driver: Driver, limit: number): Target =>
    atMost(
      `${driver.name}, durable: false, against cp`,
      time(driver) / time(COPY),
      limit,
      formatRatio,
      beside(formatDuration, { ours: time(driver), cp: time(COPY) }),
    );
  const lessMemory = (what: string, from: Rows): Target =>
    atMost(
      `convert${what}: VmHWM against the steps of convert.py`,
      peak(VERIFIED, from) / peak(REFERENCE, from),
      0.1,
      formatRatio,
      beside(formatByteSize, { ours: peak(VERIFIED, from), theirs: peak(REFERENCE, from) }),
    );
  return {
    title: 'A checkpoint of torch in the page cache, converted to safetensors',
    rows: [
      ['program', 'time', 'of cp', 'VmHWM', '6 GB: time', '6 GB: VmHWM'],
      ...CONVERTERS.map((driver) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell(time(driver) / time(COPY), formatRatio),
        cell(peak(driver), formatByteSize),
        cell(time(driver, large), formatDuration),
        cell(peak(driver, large), formatByteSize),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      ...reasonsOf(large).map((reason) => `6 GB: ${reason}`),
      'nothing is synced; VmHWM is the highest resident memory of the whole process, pages of files included',
      'convert.py is in no package: a program of this repository takes its steps (load, drop shared tensors, save, ' +
        'compare the sizes, load again and compare the values)',
      `6 GB: ${typeof tried === 'string' ? `not measured: ${tried}` : 'one tensor, one round'}`,
    ],
    targets: [
      atLeast(
        'convert: faster than the steps of convert.py',
        time(REFERENCE) / time(VERIFIED),
        2,
        formatRatio,
        beside(formatDuration, { ours: time(VERIFIED), theirs: time(REFERENCE) }),
      ),
      againstCopy(UNVERIFIED, 1.3),
      againstCopy(VERIFIED, 1.8),
      lessMemory('', rows),
      lessMemory(' of one tensor of 6 GB', large),
    ],
  };
}
