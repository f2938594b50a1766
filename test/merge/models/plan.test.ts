/** Layers that a recipe lists, and that a model lacks. */
import { expect, it } from 'vitest';
import {
  type Checkpoint,
  type MergeModelsRecipe,
  mergeModels,
  parse,
  serialize,
} from '../../support/api.js';
import { checkpoint, valuesOf } from '../make-adapter.js';

/** A model with tensors of a single element. */
function model(names: readonly string[]): Checkpoint {
  const tensor = { dtype: 'F32', shape: [1], data: new Float32Array(1) } as const;
  return parse(serialize(new Map(names.map((name) => [name, tensor]))));
}

const slice = (source: Checkpoint, layers: readonly [number, number]): MergeModelsRecipe => ({
  method: 'passthrough',
  slices: [{ sources: [{ source, layers }] }],
});

it.each<[readonly string[], readonly [number, number], string]>([
  [['l.3000000.w'], [0, 3_000_000], 'has no layer 0, the recipe lists [0, 3000000)'],
  [['l.0.w', 'l.2.w'], [0, 3], 'has no layer 1, the recipe lists [0, 3)'],
  [['l.0.w', 'l.1.w'], [1, 3], 'has 2 layers, the recipe lists [1, 3)'],
])('layers without tensors are rejected: %j of %j', async (names, layers, message) => {
  await expect(mergeModels(slice(model(names), layers))).rejects.toMatchObject({
    code: 'SAFETENSORS_INVALID_RECIPE',
    message: expect.stringContaining(message),
  });
});

it('layers before missing ones can be used', async () => {
  const source = checkpoint({
    'l.0.w': valuesOf([1], [1]),
    'l.5.w': valuesOf([1], [5]),
    'l.6.w': valuesOf([1], [6]),
  });
  const merged = (await mergeModels(slice(source, [5, 7]))) as Checkpoint;
  expect(merged.keys()).toEqual(['l.0.w', 'l.1.w']);
  expect([...merged.getTensor('l.1.w').toFloat32()]).toEqual([6]);
});
