/** Methods at the limits of their inputs. */
import { expect, it } from 'vitest';
import {
  type Checkpoint,
  type MergeModelsRecipe,
  mergeModels,
  parse,
  serialize,
} from '../../support/api.js';
import { checkpoint, valuesOf } from '../make-adapter.js';

it.each(['F32', 'F64'] as const)(
  'add_difference without a third tensor is the first one: %s',
  async (dtype) => {
    const of = (...names: readonly [string, number][]): Checkpoint => {
      const array = (value: number): Float32Array | Float64Array =>
        dtype === 'F64' ? Float64Array.of(value) : Float32Array.of(value);
      const tensors = names.map(([name, value]) => [
        name,
        { dtype, shape: [1], data: array(value) },
      ]);
      return parse(serialize(new Map(tensors as never)));
    };
    const sources = [
      of(['x', 1], ['y', 1]),
      of(['x', 3], ['y', Number.POSITIVE_INFINITY]),
      of(['x', 2]),
    ];
    const models = sources.map((source) => ({ source }));
    const merged = (await mergeModels({
      method: 'add_difference',
      models,
      alpha: 0.5,
    })) as Checkpoint;
    expect(['x', 'y'].map((name) => merged.getTensor(name).toFloat32()[0])).toEqual([1.5, 1]);
  },
);

it('too few models leave a tensor as it is, whatever the others are', async () => {
  const large = checkpoint({
    x: valuesOf([2], [1, 2]),
    y: valuesOf([2], [Number.POSITIVE_INFINITY, 1]),
  });
  const recipe: MergeModelsRecipe = {
    method: 'model_stock',
    base: checkpoint({ x: valuesOf([2], [1, 2]), y: valuesOf([2], [1, 2]) }),
    models: [{ source: large }, { source: checkpoint({ x: valuesOf([2], [1, 2]) }) }],
  };
  const merged = (await mergeModels(recipe, { unmatched: 'skip' })) as Checkpoint;
  expect([...merged.getTensor('y').toFloat32()]).toEqual([1, 2]);
});

it.each([[[1, -1]], [[1, -1 + 1e-9]], [[0.1 + 0.2, -0.3]]])(
  'weights %j, which add up to almost nothing, do not divide',
  async (weights) => {
    const models = weights.map((weight) => ({
      source: checkpoint({ x: valuesOf([1], [weight]) }),
      weight,
    }));
    await expect(mergeModels({ method: 'linear', models })).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_RECIPE',
      message: expect.stringContaining('add up to'),
    });
    await mergeModels({ method: 'linear', models, normalize: false });
  },
);

it('other layers of the base are merged into it', async () => {
  const base = checkpoint({ 'l.0.w': valuesOf([1], [1]), 'l.1.w': valuesOf([1], [5]) });
  const merged = (await mergeModels({
    method: 'task_arithmetic',
    base,
    slices: [
      {
        sources: [
          { source: base, layers: [0, 1] },
          { source: base, layers: [1, 2], weight: 0.5 },
        ],
      },
    ],
  })) as Checkpoint;
  expect([...merged.getTensor('l.0.w').toFloat32()]).toEqual([3]);
});
