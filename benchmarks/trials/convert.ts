import { join } from 'node:path';
import { formatDuration } from '../byte-size.js';
import type { ConvertResult } from '../children/convert.js';
import { endProgress, showProgress } from '../command-line.js';
import { median } from '../median.js';
import type { TensorSpec } from '../model.js';
import { atLeast, atMost, type Section } from '../report.js';
import { runChild } from '../run-child.js';
import { writeModel } from '../write-model.js';
import type { TrialContext } from './context.js';

const SCRIPT = join(import.meta.dirname, '../children/convert.js');

/** Values per tensor: 128 MB of output, more than caches hold. */
const VALUES = 2 ** 25;

/** Bytes per element of what is converted; F32 is the memcpy that the others are compared with. */
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  F32: 4,
  BF16: 2,
  F16: 2,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
  F8_E4M3FNUZ: 1,
  F8_E5M2FNUZ: 1,
};

const MEMCPY = 'F32';

/** Conversion to float32, beside a memcpy of the output and loops in JavaScript. */
export async function convertTrial(context: TrialContext): Promise<Section> {
  const { rounds, folder, signal } = context;
  const path = join(folder, 'convert.safetensors');
  const tensors = Object.entries(ELEMENT_BYTES).map(
    ([dtype, bytes]): TensorSpec => ({
      name: dtype,
      dtype,
      shape: [VALUES],
      byteLength: VALUES * bytes,
    }),
  );
  showProgress('writing tensors to convert');
  await writeModel(path, tensors, { signal });
  const command = { file: process.execPath, args: [SCRIPT, path] };
  const results: ConvertResult[] = [];
  for (let round = 1; round <= rounds; round++) {
    showProgress(`conversions, round ${round} of ${rounds}`);
    results.push(await runChild<ConvertResult>(command, signal));
  }
  endProgress();
  const names = Object.keys(results[0] ?? {});
  const time = (name: string): number =>
    median(results.map((result) => result[name] ?? Number.NaN));
  // Of ratios within one process the median, so that a slow round of the machine hits both.
  const ratio = (name: string, base: string): number =>
    median(results.map((result) => (result[name] ?? Number.NaN) / (result[base] ?? Number.NaN)));
  const slowestF8 = Math.max(
    ...Object.keys(ELEMENT_BYTES)
      .filter((dtype) => dtype.startsWith('F8'))
      .map((dtype) => ratio(dtype, MEMCPY)),
  );
  const byThreads = (dtype: string): number =>
    ratio(`${dtype}, one thread`, `${dtype}, two threads`);
  const speedUp = Math.min(
    ratio('JavaScript over elements', 'BF16'),
    ratio('JavaScript over pairs', 'BF16'),
  );
  return {
    title: `Conversion to float32, ${VALUES / 2 ** 20} Mi values into an array used again`,
    rows: [
      ['what', 'time', 'ratio to memcpy'],
      ...names.map((name) => [
        name === MEMCPY ? 'F32: memcpy of the output' : name,
        formatDuration(time(name)),
        ratio(name, MEMCPY).toFixed(2),
      ]),
    ],
    notes: [
      'JavaScript converts BF16; the rows with one and two threads go into shared memory',
      `two threads: ${byThreads(MEMCPY).toFixed(2)} × for the memcpy, which only memory limits, ` +
        `${byThreads('F8_E4M3').toFixed(2)} × for F8_E4M3`,
    ],
    targets: [
      atMost('BF16 to float32: at most 0.6 of a memcpy', ratio('BF16', MEMCPY), 0.6),
      atMost('F16 to float32: at most 1.0 of a memcpy', ratio('F16', MEMCPY), 1),
      atMost('F8 to float32: at most 1.0 of a memcpy', slowestF8, 1),
      atLeast('BF16, two threads: at least 1.4 × faster than one', byThreads('BF16'), 1.4),
      atLeast('BF16: at least 3 × faster than JavaScript', speedUp, 3),
    ],
    measurements: results,
  };
}
