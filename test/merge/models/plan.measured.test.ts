/** The time to plan a merge grows with the number of tensors, not with its square. */
import { expect, it } from 'vitest';
import { type Checkpoint, mergeModels, parse, serialize } from '../../support/api.js';
import { processorMilliseconds } from '../../support/processor-time.js';

const COUNT = 40_000;

/** A model with tensors of a single element. */
function model(count: number): Checkpoint {
  const tensor = { dtype: 'F32', shape: [1], data: new Float32Array(1) } as const;
  return parse(serialize(new Map(Array.from({ length: count }, (_, i) => [`a.t${i}`, tensor]))));
}

it.each([
  ['all of which both models have', COUNT],
  ['of which one model lacks nearly all', 1],
])('of many tensors, %s', async (_, count) => {
  const models = [{ source: model(COUNT) }, { source: model(count) }];
  const taken = await processorMilliseconds(() =>
    mergeModels({ method: 'weighted_sum', models, alpha: 0.5 }),
  );
  // A pass over all names for each tensor takes 11 to 27 seconds.
  expect(taken).toBeLessThan(8000);
});
