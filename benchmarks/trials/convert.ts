/** Conversion to float32, beside a memcpy of the output and a loop in JavaScript. */
import { join } from 'node:path';
import type { ConvertResult } from '../children/convert.js';
import { showProgress } from '../command-line.js';
import { node } from '../drivers.js';
import { formatDuration, formatRatio, median } from '../figures.js';
import { measure, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { atLeast, atMost } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeModel } from '../write-model.js';

/** Values per tensor: 128 MB of output, more than caches hold. */
const VALUES = 2 ** 25;

/** What is converted to F32, which takes nothing but a memcpy, and from these dtypes. */
const MEMCPY = 'F32';
const F8 = ['F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'];
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  [MEMCPY]: 4,
  BF16: 2,
  F16: 2,
  ...Object.fromEntries(F8.map((dtype) => [dtype, 1])),
};

const CONVERT = node('safetensors-mmap', 'convert.js', '-');

export async function convert(context: TrialContext): Promise<Section> {
  const { equipment, folder, rounds, signal } = context;
  const path = join(folder, 'convert.safetensors');
  const tensors = Object.entries(ELEMENT_BYTES).map(([dtype, bytes]) => {
    return { name: dtype, dtype, shape: [VALUES], byteLength: VALUES * bytes };
  });
  showProgress('writing tensors to convert');
  await writeModel(path, tensors, signal);
  const plan = { title: 'conversions', path, rounds };
  const rows = await measure<ConvertResult>([CONVERT], plan, equipment, signal);
  const results = rows[0]?.results ?? [];
  const time = (name: string): number =>
    median(results.map((result) => result[name] ?? Number.NaN));
  // The median of ratios within one process: a slow round of the machine hits both.
  const ratio = (name: string, base = MEMCPY): number =>
    median(results.map((result) => (result[name] ?? Number.NaN) / (result[base] ?? Number.NaN)));
  return {
    title: `Conversion to float32, ${VALUES / 2 ** 20} Mi values into an array used again`,
    rows: [
      ['what', 'time', 'ratio to memcpy'],
      ...Object.keys(results[0] ?? {}).map((name) => [
        name === MEMCPY ? 'F32: memcpy of the output' : name,
        formatDuration(time(name)),
        ratio(name).toFixed(2),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      'JavaScript converts BF16; the rows with one and two threads go into shared memory',
    ],
    targets: [
      atMost('BF16 to float32 against a memcpy', ratio('BF16'), 0.6, formatRatio),
      atMost('F16 to float32 against a memcpy', ratio('F16'), 1, formatRatio),
      atMost(
        'F8 to float32 against a memcpy',
        Math.max(...F8.map((dtype) => ratio(dtype))),
        1,
        formatRatio,
      ),
      atLeast(
        'BF16 to float32, two threads: faster than one',
        ratio('BF16, one thread', 'BF16, two threads'),
        1.4,
        formatRatio,
      ),
      atLeast(
        'BF16 to float32: faster than JavaScript',
        ratio('JavaScript over pairs', 'BF16'),
        3,
        formatRatio,
      ),
    ],
  };
}
