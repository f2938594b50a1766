import { join } from 'node:path';
import { formatDuration } from '../byte-size.js';
import type { OpenHeaderResult } from '../children/open-header.js';
import { showProgress } from '../command-line.js';
import { manySmallTensors } from '../many-tensors.js';
import { median } from '../median.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atLeast, atMost, type Section, type Target } from '../report.js';
import { ChildError, type Command, runChild } from '../run-child.js';
import { writeSparseModel } from '../write-model.js';
import { cell, type TrialContext } from './context.js';

const COUNTS = [1000, 100_000, 1_000_000] as const;

/** Ways of opening a file, by the heading of their column. */
const METHODS = {
  open: 'open',
  keys: 'open + keys()',
  json: 'JSON.parse + checks',
  reference: 'Python open',
  referenceKeys: 'Python open + keys()',
} as const;
type Method = keyof typeof METHODS;
type Times = Readonly<Record<Method, number>>;

function commandOf(method: Method, path: string, { equipment }: TrialContext): Command | undefined {
  const script = join(NODE_CHILDREN, 'open-header.js');
  const byNode = (name: string): Command => ({
    file: process.execPath,
    args: [script, name, path],
  });
  const { python } = equipment;
  const byPython = (name: string): Command | undefined => {
    if (typeof python === 'string' || !('safetensors' in python.packages)) return undefined;
    return { file: python.file, args: [join(PYTHON_CHILDREN, 'open_header.py'), name, path] };
  };
  switch (method) {
    case 'open':
      return byNode('ours');
    case 'keys':
      return byNode('ours-keys');
    case 'json':
      return byNode('json');
    case 'reference':
      return byPython('open');
    case 'referenceKeys':
      return byPython('keys');
  }
}

async function measure(
  path: string,
  count: number,
  context: TrialContext,
  failures: Set<string>,
): Promise<Times> {
  const all = new Map<Method, number[]>();
  const methods = Object.keys(METHODS) as Method[];
  for (let round = 1; round <= context.rounds; round++) {
    for (const method of methods) {
      const command = commandOf(method, path, context);
      if (command === undefined) continue;
      showProgress(`headers: ${count} tensors, ${METHODS[method]}, round ${round}`);
      try {
        const { elapsed } = await runChild<OpenHeaderResult>(command, context.signal);
        all.set(method, [...(all.get(method) ?? []), elapsed]);
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        failures.add(`${count} tensors, ${METHODS[method]}: ${error.message}`);
      }
    }
  }
  const medians = methods.map((method) => [method, median(all.get(method) ?? [])]);
  return Object.fromEntries(medians) as Times;
}

function targets(measured: ReadonlyMap<number, Times>): Target[] {
  const ratio = (count: number, rival: Method, own: Method): number =>
    (measured.get(count)?.[rival] ?? Number.NaN) / (measured.get(count)?.[own] ?? Number.NaN);
  return [
    atLeast(
      '100 000 tensors, open: at least 2.5 × faster than JSON.parse + checks',
      ratio(100_000, 'json', 'open'),
      2.5,
    ),
    atLeast(
      '100 000 tensors, open + keys(): at least 2 × faster than the reference',
      ratio(100_000, 'referenceKeys', 'keys'),
      2,
    ),
    atMost(
      '1 000 000 tensors, open: at most 1.5 s',
      (measured.get(1_000_000)?.open ?? Number.NaN) / 1e3,
      1.5,
    ),
    atLeast(
      '1 000 000 tensors, open: at least 3 × faster than the reference',
      ratio(1_000_000, 'reference', 'open'),
      3,
    ),
  ];
}

/** Files with many tensors: opened, and their names listed. */
export async function headersTrial(context: TrialContext): Promise<Section> {
  const measured = new Map<number, Times>();
  const failures = new Set<string>();
  for (const count of COUNTS) {
    const path = join(context.folder, `header-${count}.safetensors`);
    await writeSparseModel(path, manySmallTensors(count));
    measured.set(count, await measure(path, count, context, failures));
  }
  return {
    title: 'Headers of many tensors, opened in a fresh process',
    rows: [
      ['tensors', ...Object.values(METHODS)],
      ...Array.from(measured, ([count, times]) => [
        count.toLocaleString('en').replaceAll(',', ' '),
        ...(Object.keys(METHODS) as Method[]).map((method) => cell(times[method], formatDuration)),
      ]),
    ],
    notes: [...failures, 'JSON.parse + checks does not notice a name that comes twice'],
    targets: targets(measured),
    measurements: Object.fromEntries(measured),
  };
}
