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
