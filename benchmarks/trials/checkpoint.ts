import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatDuration } from '../byte-size.js';
import { expertTensors, spread, writeCheckpoint } from '../checkpoint-files.js';
import type { OpenCheckpointResult } from '../children/open-checkpoint.js';
import { showProgress } from '../command-line.js';
import { median } from '../median.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atLeast, atMost, type Section } from '../report.js';
import { ChildError, type Command, runChild } from '../run-child.js';
import { writeSparseModel } from '../write-model.js';
import { cell, type TrialContext, times } from './context.js';

const SHARDS = 163;
const TENSORS = 92_000;

/** What is done with the checkpoint, by the heading of its column. */
const METHODS = {
  open: 'index only',
  tensor: 'index, one tensor',
  verify: 'every header checked',
} as const;
type Method = keyof typeof METHODS;

const OURS = 'safetensors-mmap';
const REFERENCE = 'Python json.load, safe_open';

/** A checkpoint of very many tensors: its index read, one tensor taken, every header checked. */
export async function checkpointTrial(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const { python } = equipment;
  const folder = join(context.folder, 'experts');
  showProgress('checkpoint: writing its shards');
  const tensors = expertTensors(TENSORS);
  const index = await writeCheckpoint(folder, spread(tensors, SHARDS), writeSparseModel);
  // Its 4 kB are all of a shard that is read, so that the time is that of finding it.
  const scales = tensors.findLast(({ dtype }) => dtype === 'F32')?.name ?? '';
  const readers = new Map<string, (method: Method) => Command | undefined>([
    [
      OURS,
      (method) => ({
        file: process.execPath,
        args: [join(NODE_CHILDREN, 'open-checkpoint.js'), method, index, scales],
      }),
    ],
  ]);
  const notes = ['sparse files: nothing but headers is read, and those are in the page cache'];
  const missing = ['safetensors', 'ml_dtypes'].filter(
    (name) => typeof python !== 'string' && !(name in python.packages),
  );
  if (typeof python === 'string') notes.push(`${REFERENCE} was not measured: ${python}`);
  else if (missing.length > 0) {
    notes.push(`${REFERENCE} was not measured: Python has no: ${missing.join(', ')}`);
  } else {
    const script = join(PYTHON_CHILDREN, 'open_checkpoint.py');
    readers.set(REFERENCE, (method) =>
      method === 'open' ? undefined : { file: python.file, args: [script, method, index, scales] },
    );
  }
  const results: (OpenCheckpointResult & { reader: string; method: Method })[] = [];
  const methods = Object.keys(METHODS) as Method[];
  for (let round = 1; round <= rounds; round++) {
    for (const method of methods) {
      for (const [reader, commandOf] of readers) {
        const command = commandOf(method);
        if (command === undefined) continue;
        showProgress(`checkpoint: ${METHODS[method]}, ${reader}, round ${round} of ${rounds}`);
        try {
          const result = await runChild<OpenCheckpointResult>(command, signal);
          results.push({ ...result, reader, method });
        } catch (error) {
          if (!(error instanceof ChildError)) throw error;
          notes.push(`${reader}, ${METHODS[method]}, failed: ${error.message}`);
        }
      }
    }
  }
  await rm(folder, { recursive: true });
  const of = (reader: string, method: Method): OpenCheckpointResult[] =>
    results.filter((result) => result.reader === reader && result.method === method);
  const time = (reader: string, method: Method): number =>
    median(of(reader, method).map(({ elapsed }) => elapsed));
  const wrong = results.filter(
    ({ method, count }) => count !== (method === 'tensor' ? 4096 : TENSORS),
  );
  const ratio = (method: Method): number => time(REFERENCE, method) / time(OURS, method);
  return {
    title: `A checkpoint of ${SHARDS} shards and ${TENSORS} tensors, opened in a fresh process`,
    rows: [
      ['reader', ...Object.values(METHODS)],
      ...Array.from(readers.keys(), (reader) => [
        reader,
        ...methods.map((method) => cell(time(reader, method), formatDuration)),
      ]),
      ['Python / safetensors-mmap', ...methods.map((method) => cell(ratio(method), times))],
    ],
    notes,
    targets: [
      atLeast(
        `${SHARDS} shards, every header checked: at least 3 × faster than Python`,
        ratio('verify'),
        3,
      ),
      atMost(`${SHARDS} shards: readers that did not see every tensor`, wrong.length, 0),
    ],
    measurements: results,
  };
}
