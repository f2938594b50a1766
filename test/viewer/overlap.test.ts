/** The cosine of what two models changed. */
import { expect, it } from 'vitest';
import { overlap } from '../../viewer/worker/overlap.js';
import { openSource, type Source, sourceOf } from '../../viewer/worker/sources.js';
import { type Entry, fileBytes } from '../support/make-file.js';

const { signal } = new AbortController();
const { NaN: none, POSITIVE_INFINITY: infinite } = Number;

/** Values of the base, of a and of b, and the cosine of the changes. */
const TENSORS: Readonly<Record<string, readonly [number[], number[], number[], number | null]>> = {
  alike: [[1, 2], [2, 4], [4, 8], 1],
  opposite: [[1, 2], [2, 4], [0, 0], -1],
  across: [[1, 1], [2, 1], [1, 3], 0],
  between: [[0, 0], [1, 0], [1, 1], Math.SQRT1_2],
  unchanged: [[1, 2], [1, 2], [3, 4], null],
  broken: [[1, 1, 1, 1], [2, none, 1, 1], [3, 5, infinite, 1], 1],
  only_broken: [[1], [none], [2], null],
  // The square of the change is infinite as a double.
  huge: [[0, 0], [1e200, 1], [1, 1], Math.SQRT1_2],
};

async function opened(model: 0 | 1 | 2): Promise<Source> {
  const entry = (name: string, values: Float64Array): Entry => {
    const bytes = new Uint8Array(values.buffer as ArrayBuffer);
    return { name, dtype: 'F64', shape: [values.length], bytes };
  };
  const file = fileBytes([
    ...Object.entries(TENSORS).map(([name, all]) => entry(name, Float64Array.from(all[model]))),
    entry('long', new Float64Array(2 ** 18).fill(model)),
  ]);
  const files = new Map([['model.safetensors', new File([file], 'model.safetensors')]]);
  const { id } = await openSource({ kind: 'files', files }, null, signal, () => {});
  return sourceOf(id);
}

it('is of the values that are finite in all three, and exact or of a sample', async () => {
  const sources = [await opened(0), await opened(1), await opened(2)] as const;
  const names = Object.keys(TENSORS);
  const { cosines, isSample } = await overlap(sources, names, false, signal);
  expect(isSample).toBe(false);
  const expected = Object.values(TENSORS).map(([, , , cosine]) => cosine);
  expect(cosines.map((one) => one && Number(one.toFixed(12)))).toEqual(
    expected.map((one) => one && Number(one.toFixed(12))),
  );
  for (const isWhole of [false, true]) {
    expect(await overlap(sources, ['long'], isWhole, signal)).toEqual({
      ...{ cosines: [1], isSample: !isWhole },
    });
  }
});
