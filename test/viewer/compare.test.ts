/** Comparing values: its progress is in bytes that are read. */
import { expect, it, vi } from 'vitest';
import { valueDifferences } from '../../viewer/worker/compare.js';
import { openSource, sourceOf } from '../../viewer/worker/sources.js';
import { fileBytes } from '../support/make-file.js';

const { signal } = new AbortController();

/** Of 2²⁰ values, 2¹⁶ are in a sample of several tensors. */
const SHAPE = [1024, 1024];
const BYTES = 4 * 2 ** 20;

async function opened() {
  const file = fileBytes(
    ['layers.0.weight', 'layers.1.weight'].map((name) => ({
      ...{ name, dtype: 'F32', shape: SHAPE, bytes: new Uint8Array(BYTES) },
    })),
  );
  const files = new Map([['model.safetensors', new File([file], 'model.safetensors')]]);
  const { id } = await openSource({ kind: 'files', files }, null, signal, () => {});
  return sourceOf(id);
}

it.each([
  ['all values', true, BYTES],
  ['samples', false, BYTES / 16],
])('of %s', async (_, isWhole, each) => {
  const [first, second] = [await opened(), await opened()];
  // Time passes, so that each tensor is reported.
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1000));
  const reports: (readonly [done: number, total: number])[] = [];
  await valueDifferences(first, second, isWhole, signal, ({ done, total }) => {
    reports.push([done, total]);
  });
  clock.mockRestore();
  expect(reports).toEqual([
    [each, 2 * each],
    [2 * each, 2 * each],
  ]);
});
