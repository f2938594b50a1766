/** The time to plan a merge grows with the number of tensors, not with its square. */
import { expect, it } from 'vitest';
import { type Checkpoint, mergeModels, parse, serialize } from '../../support/api.js';
import { measuredAsync } from '../../support/processor-cost.mjs';

const COUNT = 24_000;
const SMALL_COUNT = COUNT / 8;

/** A model with tensors of a single element. */
function model(count: number): Checkpoint {
  const tensor = { dtype: 'F32', shape: [1], data: new Float32Array(1) } as const;
  return parse(
    serialize(new Map(Array.from({ length: count }, (_, i) => [`layers.${i}.weight`, tensor]))),
  );
}

/** The least time of three runs in which a model of `count` tensors is planned with one of `second`. */
async function leastTimeOf(count: number, second: number): Promise<number> {
  const models = [{ source: model(count) }, { source: model(second) }];
  const times: number[] = [];
  while (times.length < 3) {
    const plan = () => mergeModels({ method: 'weighted_sum', models, alpha: 0.5 });
    times.push((await measuredAsync(plan)).milliseconds);
  }
  return Math.min(...times);
}

it.each([
  ['all of which both models have', SMALL_COUNT, COUNT],
  ['of which one model lacks nearly all', 1, 1],
])('of many tensors, %s', async (_, fewer, more) => {
  const few = await leastTimeOf(SMALL_COUNT, fewer);
  const many = await leastTimeOf(COUNT, more);
  // A pass over all names for each tensor takes more than 20 times as long for eight times as many tensors.
  expect(many / few).toBeLessThan(14);
});
