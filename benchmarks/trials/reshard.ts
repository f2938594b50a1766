import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpoint, reshard, safeOpen } from 'safetensors-mmap';
import { formatByteSize, formatDuration } from '../byte-size.js';
import { showProgress } from '../command-line.js';
import { tensorDifference } from '../compare-written.js';
import {
  measureWriters,
  memoryOf,
  timeOf,
  type Writer,
  type WriterRow,
} from '../measure-writers.js';
import { NODE_CHILDREN } from '../places.js';
import { atMost, type Section } from '../report.js';
import { cell, type TrialContext, times } from './context.js';

const SHARDS = 8;

/** One direction: what is made of what. */
interface Direction {
  readonly name: string;
  /** What is resharded. */
  readonly source: string;
  /** The files that `cp` copies. */
  readonly files: readonly string[];
  readonly maxShardSize: number;
}

function writersOf({ name, source, files, maxShardSize }: Direction, target: string): Writer[] {
  const child = (script: string, ...args: string[]) => ({
    file: process.execPath,
    args: [join(NODE_CHILDREN, script), ...args],
  });
  return (['plain', 'durable'] as const).flatMap((durability) => {
    const [ours, copy] = namesOf(name, durability);
    return [
      { name: ours, command: child('reshard.js', durability, `${maxShardSize}`, source, target) },
      { name: copy, command: child('copy-files.js', durability, ...files, target) },
    ];
  });
}

function namesOf(name: string, durability: 'plain' | 'durable'): readonly [string, string] {
  return durability === 'plain'
    ? [`${name}: reshard, durable: false`, `${name}: cp --reflink=never`]
    : [`${name}: reshard`, `${name}: cp --reflink=never, sync`];
}

/** The model split into shards, and the shards merged into one file. */
export async function reshardTrial(context: TrialContext): Promise<Section> {
  const { equipment, folder, path, rounds, signal } = context;
  const { loop } = equipment;
  const { size } = await stat(path);
  const shards = join(folder, 'shards');
  const target = join(folder, 'resharded');
  const maxShardSize = Math.ceil(size / SHARDS);
  showProgress('reshard: making the shards');
  await reshard(path, shards, { maxShardSize });
  const files = (await readdir(shards)).map((name) => join(shards, name));
  const directions: readonly Direction[] = [
    { name: 'split', source: path, files: [path], maxShardSize },
    { name: 'merge', source: shards, files, maxShardSize: Number.POSITIVE_INFINITY },
  ];
  const check = async (): Promise<string | undefined> => {
    using file = safeOpen(path);
    using checkpoint = openCheckpoint(target);
    await checkpoint.verify();
    return tensorDifference(file, checkpoint);
  };
  const rows: WriterRow[] = [];
  for (const direction of directions) {
    const plan = {
      sources: direction.files,
      byteLength: size,
      target,
      check,
      rounds,
      loop,
      signal,
    };
    rows.push(...(await measureWriters(writersOf(direction, target), plan)));
  }
  await rm(shards, { recursive: true });
  const time = (name: string): number => timeOf(rows, name);
  const ratio = (name: string, durability: 'plain' | 'durable'): number => {
    const [ours, copy] = namesOf(name, durability);
    return time(ours) / time(copy);
  };
  const own = directions.flatMap(({ name }) => [namesOf(name, 'plain'), namesOf(name, 'durable')]);
  const memory = Math.max(...own.map(([ours]) => memoryOf(rows, ours)));
  return {
    title: `${formatByteSize(size)} split into ${files.length - 1} shards, and merged`,
    rows: [
      ['writer', 'time', 'of cp', 'extra memory'],
      ...rows.map(({ name }) => {
        const pair = own.find(([ours]) => ours === name);
        return [
          name,
          cell(time(name), formatDuration),
          pair === undefined ? '–' : cell(time(name) / time(pair[1]), times),
          cell(memoryOf(rows, name), (bytes) => `+${formatByteSize(bytes)}`),
        ];
      }),
    ],
    notes: rows.flatMap(({ name, reason }) =>
      reason === undefined ? [] : [`${name} was not measured: ${reason}`],
    ),
    targets: [
      ...directions.flatMap(({ name }) => [
        atMost(`${name}, durable: false: at most 1.3 of cp`, ratio(name, 'plain'), 1.3),
        atMost(`${name}: at most 1.3 of cp and sync`, ratio(name, 'durable'), 1.3),
      ]),
      atMost('resharding: at most 64 MB of extra memory (in MB)', memory / 1e6, 64),
    ],
    measurements: rows,
  };
}
