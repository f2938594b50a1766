import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { formatByteSize, formatDuration } from '../byte-size.js';
import { haveSameBytes } from '../compare-written.js';
import type { Equipment } from '../equipment.js';
import {
  measureWriters,
  memoryOf,
  timeOf,
  type Writer,
  type WriterRow,
} from '../measure-writers.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atLeast, atMost, type Section } from '../report.js';
import { cell, type TrialContext, times } from './context.js';

/** Writers of tensors that are in memory, by name; `limit` is C, `node` and `python` are children. */
type Kind = 'limit' | 'node' | 'python' | 'torch';
type Row = readonly [name: string, kind: Kind, method: string];

const SAVE_FILE = 'save_file, Python with numpy';
const FROM_MEMORY: readonly Row[] = [
  ['limit: write, C', 'limit', 'write'],
  ['fs.writeFile of one buffer', 'node', 'write-file'],
  ['saveFile, durable: false', 'node', 'memory-plain'],
  ['saveFileSync, durable: false', 'node', 'memory-sync-plain'],
  [SAVE_FILE, 'python', 'memory'],
  ['saveFile', 'node', 'memory-durable'],
  ['saveFileSync', 'node', 'memory-sync-durable'],
  [`${SAVE_FILE}, fsync`, 'python', 'memory-durable'],
];

const BARE_COPY = 'limit: copy_file_range, C';
const RESERVED_COPY = 'limit: fallocate, copy_file_range, C';
const FROM_FILE: readonly Row[] = [
  [BARE_COPY, 'limit', 'copy'],
  [RESERVED_COPY, 'limit', 'reserve'],
  ['open file: saveFile, durable: false', 'node', 'file-plain'],
  ['open file: saveFileSync, durable: false', 'node', 'file-sync-plain'],
  ['open file: saveFile', 'node', 'file-durable'],
  ['load_file and save_file, Python with numpy', 'python', 'numpy'],
  ['load_file and save_file, Python with torch', 'torch', 'torch'],
];

function packagesOf(kind: Kind): readonly string[] {
  return kind === 'torch' ? ['safetensors', 'torch'] : ['safetensors', 'numpy', 'ml_dtypes'];
}

/** What the writers need to be there. */
type Needed = Pick<Equipment, 'loop' | 'python'>;

function writerOf(
  [name, kind, method]: Row,
  source: string,
  target: string,
  { loop, python }: Needed,
): Writer {
  const args = [method, source, target];
  if (kind === 'limit') {
    return { name, command: typeof loop === 'string' ? loop : { file: loop.writeLimit, args } };
  }
  if (kind === 'node') {
    const script = join(NODE_CHILDREN, 'save.js');
    return { name, command: { file: process.execPath, args: [script, ...args] } };
  }
  if (typeof python === 'string') return { name, command: python };
  const missing = packagesOf(kind).filter((name) => !(name in python.packages));
  if (missing.length > 0) return { name, command: `Python has no: ${missing.join(', ')}` };
  const script = join(PYTHON_CHILDREN, 'save.py');
  return { name, command: { file: python.file, args: [script, ...args] } };
}

/** The writers of the trial, with what each is asked for here. */
export function saveWriters(source: string, target: string, equipment: Needed): Writer[] {
  return [...FROM_MEMORY, ...FROM_FILE].map((row) => writerOf(row, source, target, equipment));
}

function ownMemory(rows: readonly WriterRow[]): number {
  const own = rows.map(({ name }) => name).filter((name) => /saveFile/.test(name));
  return Math.max(...own.map((name) => memoryOf(rows, name)));
}

/** The model written to a new file: from memory, and from the file where it is. */
export async function saveTrial(context: TrialContext): Promise<Section> {
  const { equipment, folder, path, rounds, signal } = context;
  const target = join(folder, 'saved.safetensors');
  const { size } = await stat(path);
  const check = async (): Promise<string | undefined> =>
    (await haveSameBytes(path, target)) ? undefined : 'wrote other bytes than the others';
  const { loop } = equipment;
  const plan = { sources: [path], byteLength: size, target, check, rounds, loop, signal };
  const rows = await measureWriters(saveWriters(path, target, equipment), plan);
  const time = (name: string): number => timeOf(rows, name);
  return {
    title: `Saving ${formatByteSize(size)} to a new file`,
    rows: [
      ['writer', 'time', 'per second', 'extra memory'],
      ...rows.map(({ name }) => [
        name,
        cell(time(name), formatDuration),
        cell((1e3 * size) / time(name), formatByteSize),
        cell(memoryOf(rows, name), (bytes) => `+${formatByteSize(bytes)}`),
      ]),
    ],
    notes: [
      ...rows.flatMap(({ name, reason }) =>
        reason === undefined ? [] : [`${name} was not measured: ${reason}`],
      ),
      'extra memory is the highest VmHWM of any round above what was resident before; what torch maps is part of it',
      `fsync included costs ${times(time('saveFile') / time('saveFile, durable: false'))} the time here`,
    ],
    targets: [
      atLeast(
        'saving from memory, durable: false: at least as fast as save_file of the reference',
        time(SAVE_FILE) / time('saveFile, durable: false'),
        1,
      ),
      atMost(
        'saving from an open file, durable: false: at most 1.1 of a bare copy_file_range',
        time('open file: saveFile, durable: false') / time(BARE_COPY),
        1.1,
      ),
      atMost('saving: at most 64 MB of extra memory (in MB)', ownMemory(rows) / 1e6, 64),
    ],
    measurements: rows,
  };
}
