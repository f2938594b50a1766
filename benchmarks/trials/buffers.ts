/** Buffers over the tensors of a large model, beside live objects: what the garbage collector makes of them. */
import { join } from 'node:path';
import type { BuffersResult } from '../children/buffers.js';
import { type Driver, node } from '../drivers.js';
import { cell, formatByteSize, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import { atMost, type Section } from '../report.js';
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
  const plan = { title: 'buffers', path, args: [`${LIVE_OBJECTS}`] };
  const run = (driver: Driver, rounds: number) =>
    measure<BuffersResult>([driver], { ...plan, rounds }, equipment, signal);
  // Half a minute each: once is enough.
  const measured = [...(await run(DEFAULT, rounds)), ...(await run(COUNTED, 1))];
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
      atMost('first buffer: at most 0.7 ms', first(DEFAULT), 0.7),
      atMost('894 buffers of 134 MB beside 200 MB: at most 25 ms', all(DEFAULT), 25),
      atMost('894 buffers of 134 MB beside 200 MB: no full collection', collections(DEFAULT), 0),
    ],
  };
}
