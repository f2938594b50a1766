/** The model written to a new file: from memory, and from the file where it is. */
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { WriterResult } from '../children/save.js';
import { type Driver, limit, NUMPY_REFERENCE, node, python, TORCH_REFERENCE } from '../drivers.js';
import { cell, formatByteSize, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, NotMeasuredError, startChild } from '../run-child.js';
import { atLeast, atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

const SAVE = node('saveFile, durable: false', 'save.js', 'memory');
const SAVE_DURABLE = node('saveFile', 'save.js', 'memory-durable');
const REFERENCE = python('save_file, Python with numpy', 'save.py', 'memory', NUMPY_REFERENCE);
const BARE_COPY = limit('limit: copy_file_range, C', 'write_limit', 'copy');
const COPY = node('open file: saveFile, durable: false', 'save.js', 'file');
const COPY_DURABLE = node('open file: saveFile', 'save.js', 'file-durable');

/** All writers in the order of the table; the first six have the tensors in memory. */
export const WRITERS: readonly Driver[] = [
  limit('limit: write, C', 'write_limit', 'write'),
  node('fs.writeFile of one buffer', 'save.js', 'writeFile'),
  SAVE,
  REFERENCE,
  SAVE_DURABLE,
  python('save_file, Python with numpy, fsync', 'save.py', 'memory-durable', NUMPY_REFERENCE),
  BARE_COPY,
  COPY,
  COPY_DURABLE,
  python('load_file and save_file, Python with torch', 'save.py', 'torch', TORCH_REFERENCE),
];

/** Memory that is kept ready, per byte written. */
const HELD_PER_BYTE = 1.25;
const BLOCK_BYTES = 4 * 2 ** 20;

/** Whether two files have the same bytes. */
export async function haveSameBytes(path: string, other: string): Promise<boolean> {
  await using first = await open(path);
  await using second = await open(other);
  const [a, b] = [Buffer.alloc(BLOCK_BYTES), Buffer.alloc(BLOCK_BYTES)];
  const { size } = await first.stat();
  if ((await second.stat()).size !== size) return false;
  for (let at = 0; at < size; ) {
    const { bytesRead } = await first.read(a, 0, BLOCK_BYTES, at);
    await second.read(b, 0, bytesRead, at);
    if (bytesRead === 0 || a.compare(b, 0, bytesRead, 0, bytesRead) !== 0) return false;
    at += bytesRead;
  }
  return true;
}

/**
 * Runs a writer to its end. The process of the command `hold` has memory until the writer is ready,
 * and gives it back right before the clock starts. A virtual machine gets memory from its host when
 * it is first touched, and gives it back seconds after it was freed; both are slower than writing.
 * This way every writer finds memory that is there.
 *
 * @throws NotMeasuredError when what it has written is not the source.
 */
export async function runWriter(
  command: Command,
  hold: Command,
  source: string,
  target: string,
  signal: AbortSignal,
): Promise<WriterResult> {
  const holder = await startChild(hold, signal);
  try {
    const writer = await startChild<WriterResult>(command, signal);
    await holder.end();
    await writer.end();
    if (!(await haveSameBytes(source, target))) throw new NotMeasuredError('wrote other bytes');
    return writer.line();
  } finally {
    await holder.end();
    await rm(target, { force: true });
  }
}

export async function save(context: TrialContext): Promise<Section> {
  const { equipment, folder, path, rounds, signal } = context;
  const target = join(folder, 'saved.safetensors');
  const { size } = await stat(path);
  const held = String(Math.round(size * HELD_PER_BYTE));
  const hold = { file: join(equipment.programs, 'write_limit'), args: ['hold', held] };
  const run = (command: Command): Promise<WriterResult> =>
    runWriter(command, hold, path, target, signal);
  const plan = { title: 'save', args: [target], cache: 'warm', rounds, run } as const;
  const rows = await measure(WRITERS, plan, equipment, signal);
  const time = (driver: Driver): number => medianOf(rows, driver, ({ elapsed }) => elapsed);
  const extraMemory = (driver: Driver): number => {
    const results = rows.find((row) => row.driver === driver)?.results ?? [];
    return results.length === 0
      ? Number.NaN
      : Math.max(...results.map((result) => result.extraMemory));
  };
  return {
    title: `Saving ${formatByteSize(size)} to a new file`,
    rows: [
      ['writer', 'time', 'per second', 'extra memory'],
      ...WRITERS.map((driver) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell((1e3 * size) / time(driver), formatByteSize),
        cell(extraMemory(driver), (bytes) => `+${formatByteSize(bytes)}`),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      'extra memory is the highest VmHWM of any round above what was resident before; what torch maps is part of it',
      `fsync included costs ${formatRatio(time(SAVE_DURABLE) / time(SAVE))} the time here`,
    ],
    targets: [
      atLeast(
        'saving from memory, durable: false: faster than save_file of the reference',
        time(REFERENCE) / time(SAVE),
        1,
        formatRatio,
        beside(formatDuration, { ours: time(SAVE), theirs: time(REFERENCE) }),
      ),
      atMost(
        'saving from an open file, durable: false, against a bare copy_file_range',
        time(COPY) / time(BARE_COPY),
        1.1,
        formatRatio,
        beside(formatDuration, { ours: time(COPY), theirs: time(BARE_COPY) }),
      ),
      atMost(
        'saving: extra memory',
        Math.max(...[SAVE, SAVE_DURABLE, COPY, COPY_DURABLE].map(extraMemory)),
        64e6,
        formatByteSize,
      ),
    ],
  };
}
