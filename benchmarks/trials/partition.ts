import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatByteSize, formatDuration } from '../byte-size.js';
import { bringInto } from '../cache-state.js';
import { spread, writeCheckpoint } from '../checkpoint-files.js';
import { NO_ADDON } from '../children/measure-reader.js';
import type { ReadPartitionResult } from '../children/read-partition.js';
import { showProgress } from '../command-line.js';
import { median } from '../median.js';
import { modelSizes, modelTensors, type TensorSpec } from '../model.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atMost, type Section } from '../report.js';
import { ChildError, type Command, runChild } from '../run-child.js';
import { writeModel } from '../write-model.js';
import { cell, type TrialContext } from './context.js';

const RANKS = 8;
const SHARDS = 4;
const BYTES = 1e9;

const OURS = 'safetensors-mmap, getPartition';
const REFERENCE = 'Python safe_open, numpy, get_slice';

/** All ranks of one reader, at the same time. */
interface Reading {
  readonly reader: string;
  /** Until the slowest was ready, in ms. */
  readonly elapsed: number;
  readonly bytes: number;
  readonly fetched: number;
  /** Sum of all words of all parts, modulo 2^64. */
  readonly sum: string;
}

/** A model whose first dimensions can all be divided by the number of ranks. */
function divisibleModel(): TensorSpec[] {
  const sizes = modelSizes(BYTES);
  return modelTensors({ ...sizes, vocabulary: sizes.vocabulary - (sizes.vocabulary % RANKS) });
}

async function readTogether(
  reader: string,
  commandOf: (rank: number) => Command,
  signal: AbortSignal,
): Promise<Reading | string> {
  const ranks = Array.from({ length: RANKS }, (_, rank) =>
    runChild<ReadPartitionResult>(commandOf(rank), signal),
  );
  const ended = await Promise.allSettled(ranks);
  const failed = ended.find((rank) => rank.status === 'rejected');
  if (failed !== undefined) {
    if (!(failed.reason instanceof ChildError)) throw failed.reason;
    return failed.reason.message;
  }
  const results = await Promise.all(ranks);
  const total = (key: 'bytes' | 'fetched'): number =>
    results.reduce((sum, result) => sum + result[key], 0);
  const sum = results.reduce((all, result) => all + BigInt(result.sum), 0n);
  return {
    reader,
    elapsed: Math.max(...results.map(({ elapsed }) => elapsed)),
    bytes: total('bytes'),
    fetched: total('fetched'),
    sum: String(BigInt.asUintN(64, sum)),
  };
}

/** Eight processes, each with its part of every tensor of a checkpoint that is not in memory. */
export async function partitionTrial(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const { loop, python } = equipment;
  const folder = join(context.folder, 'partitions');
  showProgress('partition: writing the shards');
  const tensors = divisibleModel();
  const byteLength = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  const shards = spread(tensors, SHARDS);
  const index = await writeCheckpoint(folder, shards, (path, inShard) =>
    writeModel(path, inShard, { signal }),
  );
  const files = [...Array.from(shards.keys(), (shard) => join(folder, shard))];
  const addon = typeof loop === 'string' ? NO_ADDON : loop.addon;
  const script = join(NODE_CHILDREN, 'read-partition.js');
  const readers = new Map<string, (rank: number) => Command>([
    [
      OURS,
      (rank) => ({ file: process.execPath, args: [script, index, addon, `${rank}`, `${RANKS}`] }),
    ],
  ]);
  const notes = new Set<string>();
  if (typeof python === 'string') notes.add(`${REFERENCE} was not measured: ${python}`);
  else if (typeof loop === 'string') notes.add(`${REFERENCE} was not measured: ${loop}`);
  else {
    const program = join(PYTHON_CHILDREN, 'read_partition.py');
    readers.set(REFERENCE, (rank) => ({
      file: python.file,
      args: [program, index, loop.library, `${rank}`, `${RANKS}`],
    }));
  }
  const readings: Reading[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const [reader, commandOf] of readers) {
      showProgress(`partition: ${reader}, round ${round} of ${rounds}`);
      const warm = await bringInto('cold', files, loop, signal);
      if (warm !== undefined) notes.add(`${reader} was left out of a round: ${warm}`);
      const reading = warm ?? (await readTogether(reader, commandOf, signal));
      if (typeof reading !== 'string') readings.push(reading);
      else if (warm === undefined) notes.add(`${reader} failed: ${reading}`);
    }
  }
  await rm(folder, { recursive: true });
  const over = (reader: string, figure: (reading: Reading) => number): number =>
    median(readings.filter((reading) => reading.reader === reader).map(figure));
  const share = (reader: string): number => over(reader, (reading) => reading.fetched) / byteLength;
  const sums = new Set(readings.map(({ sum }) => sum));
  const incomplete = readings.filter(({ bytes }) => bytes !== byteLength);
  return {
    title: `${RANKS} processes, each with its part of the same cold checkpoint of ${formatByteSize(byteLength)}`,
    rows: [
      ['reader', 'the slowest', 'from the disk, together', 'of the bytes'],
      ...Array.from(readers.keys(), (reader) => [
        reader,
        cell(
          over(reader, ({ elapsed }) => elapsed),
          formatDuration,
        ),
        cell(
          over(reader, ({ fetched }) => fetched),
          formatByteSize,
        ),
        cell(share(reader), (value) => value.toFixed(3)),
      ]),
    ],
    notes: [...notes, '"from the disk" is `read_bytes` of `/proc/PID/io`'],
    targets: [
      atMost(
        `${RANKS} ranks: together at most 1.05 of the bytes from the disk`,
        Math.max(
          ...readings.filter(({ reader }) => reader === OURS).map((reading) => reading.fetched),
          readings.some(({ reader }) => reader === OURS) ? 0 : Number.NaN,
        ) / byteLength,
        1.05,
      ),
      atMost(
        `${RANKS} ranks: readings with missing or other bytes`,
        incomplete.length + Math.max(0, sums.size - 1),
        0,
      ),
    ],
    measurements: readings,
  };
}
