/** What sources in recipes lead to. */
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { type Checkpoint, mergeModels, saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { pathOf } from '../fixtures.js';
import { checkpoint, peft, valuesOf } from '../make-adapter.js';

const model = checkpoint({ 'x.weight': valuesOf([2, 2], [1, 2, 3, 4]) });

function recipeFile(name: string, recipe: object): string {
  const path = join(temporaryPath('recipes'), name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(recipe));
  return path;
}

const passthrough = (source: unknown): object => ({ method: 'passthrough', models: [{ source }] });

describe('sources that are not texts', () => {
  it.each<[string, object]>([
    ['models[0].source', passthrough(0)],
    ['models[0].source', passthrough({ path: 'a' })],
    ['models[0].model', { merge_method: 'passthrough', models: [{ model: 0 }] }],
    ['base', { method: 'slerp', base: 0, models: [{ source: 'a' }], t: 1 }],
    ['tokenizer', { ...passthrough('a'), tokenizer: 0 }],
  ])('are rejected in a file: %s of %j', async (key, recipe) => {
    const path = recipeFile('recipe.json', recipe);
    await expect(mergeModels(path)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_RECIPE',
      path,
      message: expect.stringContaining(`${key} must be a path, a URL or the id of a repository`),
    });
  });

  it('are no descriptors in an object', async () => {
    const fd = openSync(pathOf('mk-ties-f32', 'expected.safetensors'), 'r');
    try {
      await expect(mergeModels(passthrough(fd) as never)).rejects.toMatchObject({
        code: 'SAFETENSORS_INVALID_RECIPE',
        message: expect.stringContaining('models[0].source must be'),
      });
    } finally {
      closeSync(fd);
    }
  });
});

it.each<[string, object]>([
  ['models[1].source', { method: 'linear', models: [{ source: 'a' }, { source: 'b' }], weight: 1 }],
  ['base_model', { merge_method: 'slerp', base_model: 'b', models: [{ model: 'a' }] }],
  [
    'slices[0].sources[1].model',
    {
      merge_method: 'linear',
      slices: [{ sources: ['a', 'b'].map((one) => ({ model: one, layer_range: [0, 1] })) }],
    },
  ],
])('a model that does not exist is named with its key: %s', async (key, recipe) => {
  const path = recipeFile('recipe.json', recipe);
  await saveCheckpoint(join(dirname(path), 'a'), model);
  await expect(mergeModels(path)).rejects.toMatchObject({
    code: 'ENOENT',
    path: join(dirname(path), 'b'),
    message: expect.stringContaining(`; listed as ${key} in the recipe ${path}; check the path`),
  });
});

it('paths in a file never lead to the working directory', async () => {
  const before = process.cwd();
  const folder = temporaryPath('cwd');
  for (const name of ['a', 'org/name']) await saveCheckpoint(join(folder, name), model);
  process.chdir(folder);
  try {
    for (const source of ['a', './a', 'org/name', 'org/name/model.safetensors', '.hidden/name']) {
      const path = recipeFile('recipe.json', passthrough(source));
      await expect(mergeModels(path), source).rejects.toMatchObject({
        code: 'ENOENT',
        path: resolve(dirname(path), source),
      });
    }
  } finally {
    process.chdir(before);
  }
});

it('ids in a file lead to the cache', async () => {
  const path = recipeFile('recipe.json', passthrough('no-such-organisation/name'));
  await expect(mergeModels(path)).rejects.toMatchObject({
    message: expect.stringContaining("'no-such-organisation/name'"),
  });
});

describe('a model and an adapter', () => {
  const adapter = peft({
    'x.lora_A.weight': valuesOf([2, 2], [1, 0, 0, 1]),
    'x.lora_B.weight': valuesOf([2, 2], [1, 0, 0, 1]),
  });
  const merge = async (model: string): Promise<number[]> => {
    const recipe = { merge_method: 'passthrough', models: [{ model }] };
    const merged = (await mergeModels(recipe)) as Checkpoint;
    return [...merged.getTensor('x.weight').toFloat32()];
  };

  it('are separated by the only +, unless a path has this name', async () => {
    const folder = temporaryPath('plus');
    await saveCheckpoint(join(folder, 'model'), model);
    await saveCheckpoint(join(folder, 'adapter'), adapter.source as Checkpoint);
    writeFileSync(join(folder, 'adapter/adapter_config.json'), JSON.stringify(adapter.config));
    const text = join(folder, 'model+../adapter').replace('+..', `+${folder}`);
    expect(await merge(text)).toEqual([3, 2, 3, 6]);
    await saveCheckpoint(join(folder, 'model+adapter'), model);
    expect(await merge(join(folder, 'model+adapter'))).toEqual([1, 2, 3, 4]);
  });

  it.each(['a+b+c', '+b', 'a+'])('%s is an error', async (text) => {
    await expect(merge(text)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_RECIPE',
      message: expect.stringContaining(`"${text}"`),
    });
  });
});
