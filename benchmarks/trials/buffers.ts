/** Buffers over the tensors of a large model, beside live objects: what the garbage collector makes of them. */
import { join } from 'node:path';
import type { BuffersResult } from '../children/buffers.js';
import { type Driver, node } from '../drivers.js';
import { cell, formatByteSize, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

/** A model of 120 GB in tensors of 134 MB. */
const TENSORS = 894;
const TENSOR_BYTES = 2 ** 27;

/** About 230 MB of them. */
const LIVE_OBJECTS = 2_000_000;

const DEFAULT = node('safetensors-mmap', 'buffers.js', 'default');
const COUNTED = node('the same, counted by V8', 'buffers.js', 'counted');

export async function buffers(context: TrialContext): Promise<Section> {
  const { equipment, folder, rounds, signal } = context;
  const path = join(folder, 'large.safetensors');
  const tensors = Array.from({ length: TENSORS }, (_, i) => {
    return { name: `layer.${i}`, dtype: 'U8', shape: [TENSOR_BYTES], byteLength: TENSOR_BYTES };
  });
  await writeSparseModel(path, tensors);
  const plan = {
    title: 'buffers',
    path,
    args: [`${LIVE_OBJECTS}`],
    // Half a minute each when they are counted: once is enough.
    rounds: (driver: Driver): number => (driver === COUNTED ? 1 : rounds),
  };
  const measured = await measure<BuffersResult>([DEFAULT, COUNTED], plan, equipment, signal);
  const first = (driver: Driver): number => medianOf(measured, driver, (result) => result.first);
  const all = (driver: Driver): number => medianOf(measured, driver, (result) => result.all);
  const collections = (driver: Driver): number =>
    medianOf(measured, driver, (result) => result.collections);
  const liveBytes = medianOf(measured, DEFAULT, (result) => result.liveBytes);
  const reason = measured[0]?.results[0]?.counted;
  return {
    title: `${TENSORS} buffers of 134 MB beside ${cell(liveBytes, formatByteSize)} of live objects`,
    rows: [
      ['how', 'first buffer', 'all', 'full collections'],
      ...[DEFAULT, COUNTED].map((driver) => [
        driver.name,
        cell(first(driver), formatDuration),
        cell(all(driver), formatDuration),
        cell(collections(driver), String),
      ]),
    ],
    notes: [
      ...reasonsOf(measured),
      'a sparse file, of which no byte is read; counted: one process',
      ...(reason ? [`V8 counts the buffers of this package here, because ${reason}`] : []),
    ],
    targets: [
      atMost('the first of 894 buffers of 134 MB', first(DEFAULT), 0.7, formatDuration),
      atMost(
        '894 buffers of 134 MB beside 200 MB of live objects',
        all(DEFAULT),
        25,
        formatDuration,
        beside(formatDuration, { counted: all(COUNTED) }),
      ),
      atMost(
        '894 buffers of 134 MB, full collections',
        collections(DEFAULT),
        0,
        String,
        beside(String, { counted: collections(COUNTED) }),
      ),
    ],
  };
}
