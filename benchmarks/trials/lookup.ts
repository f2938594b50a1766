import { join } from 'node:path';
import type { LookupResult } from '../children/lookup.js';
import { showProgress } from '../command-line.js';
import { manySmallTensors } from '../many-tensors.js';
import { median } from '../median.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from '../places.js';
import { atLeast, atMost, type Section } from '../report.js';
import { ChildError, type Command, runChild } from '../run-child.js';
import { writeSparseModel } from '../write-model.js';
import { cell, type TrialContext } from './context.js';

const TENSORS = 100_000;

/** Every tensor of a file with many asked for by name, with its bytes. */
export async function lookupTrial(context: TrialContext): Promise<Section> {
  const { equipment, folder, rounds, signal } = context;
  const path = join(folder, 'lookup.safetensors');
  await writeSparseModel(path, manySmallTensors(TENSORS));
  const { python } = equipment;
  const hasTorch = typeof python !== 'string' && 'torch' in python.packages;
  const commands = new Map<string, Command>();
  commands.set('safetensors-mmap', {
    file: process.execPath,
    args: [join(NODE_CHILDREN, 'lookup.js'), path],
  });
  const reference = 'Python safe_open, torch';
  if (hasTorch) {
    commands.set(reference, {
      file: python.file,
      args: [join(PYTHON_CHILDREN, 'lookup.py'), path],
    });
  }
  const results = new Map<string, LookupResult[]>();
  const notes = hasTorch ? [] : [`${reference} was not measured: Python has no torch`];
  for (let round = 1; round <= rounds; round++) {
    for (const [name, command] of commands) {
      showProgress(`lookup: ${name}, round ${round} of ${rounds}`);
      try {
        const result = await runChild<LookupResult>(command, signal);
        results.set(name, [...(results.get(name) ?? []), result]);
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        notes.push(`${name} failed: ${error.message}`);
      }
    }
  }
  const time = (name: string, call: keyof LookupResult): number =>
    median((results.get(name) ?? []).map((result) => result[call]));
  const microseconds = (value: number): string => `${value.toFixed(2)} µs`;
  const names = ['safetensors-mmap', reference];
  const ratio = (call: keyof LookupResult): number =>
    time(reference, call) / time('safetensors-mmap', call);
  return {
    title: `getTensor with its bytes, medians over ${TENSORS} tensors in batches of 100`,
    rows: [
      ['reader', 'first call', 'later call'],
      ...names.map((name) => [
        name,
        cell(time(name, 'first'), microseconds),
        cell(time(name, 'repeated'), microseconds),
      ]),
    ],
    notes,
    targets: [
      atMost('getTensor, first call: at most 6 µs', time('safetensors-mmap', 'first'), 6),
      atMost('getTensor, later call: at most 0.5 µs', time('safetensors-mmap', 'repeated'), 0.5),
      atLeast(
        'getTensor, first call: at least 2 × faster than Python with torch',
        ratio('first'),
        2,
      ),
      atLeast(
        'getTensor, later call: at least 2 × faster than Python with torch',
        ratio('repeated'),
        2,
      ),
    ],
    measurements: Object.fromEntries(results),
  };
}
