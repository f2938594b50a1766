/** Recipes and models that are rejected before anything is computed, and values that fail a save. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  type MergedModelInfo,
  type MergeModelsRecipe,
  mergeModels,
  parse,
  safeOpen,
  saveCheckpoint,
  serialize,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { pathOf } from '../fixtures.js';
import { checkpoint, type Tensors, valuesOf } from '../make-adapter.js';

const W = valuesOf([2, 2], [1, 2, 3, 4]);
const a = checkpoint({ 'model.layers.0.w': W });
const b = checkpoint({ 'model.layers.0.w': W });
const c = checkpoint({ 'model.layers.0.w': W });

const LINEAR = { method: 'linear', models: [{ source: a, weight: 1 }] };
const MERGEKITS = {
  merge_method: 'linear',
  models: [{ model: a, parameters: { weight: 1 } }],
};

describe('a recipe is invalid', () => {
  it.each<[string, object]>([
    ['method must be one of linear, slerp', { models: [] }],
    ['found "karcher"', { merge_method: 'karcher', models: [] }],
    ['merge_metod is not supported; did you mean merge_method?', { merge_metod: 'slerp' }],
    ['methode is not supported; did you mean method?', { methode: 'slerp', models: [] }],
    ['found "constructor"', { method: 'constructor', models: [] }],
    ['either models or slices', { method: 'linear' }],
    ['either models or slices', { ...LINEAR, slices: [] }],
    ['models must be a list with at least one item', { method: 'linear', models: [] }],
    ['models[0] must be an object', { method: 'linear', models: ['a'] }],
    ['models[0] has no source', { method: 'linear', models: [{ weight: 1 }] }],
    ["mixes the library's keys", { ...LINEAR, base_model: a }],
    ["mixes the library's keys", { ...LINEAR, merge_method: 'linear' }],
    ["mixes the library's keys", { ...MERGEKITS, base: a }],
    [
      "models[0].model: the recipe mixes the library's keys with those of mergekit; use source in place of model",
      { method: 'linear', models: [{ model: a }] },
    ],
    [
      "models[0].source: the recipe mixes the library's keys with those of mergekit; use model in place of source",
      { merge_method: 'linear', models: [{ source: a }] },
    ],
    [
      "parameters: the recipe mixes the library's keys with those of mergekit; list its keys without",
      { ...LINEAR, parameters: { weight: 1 } },
    ],
    [
      "models[0].weight: the recipe mixes the library's keys with those of mergekit; list weight in parameters",
      { merge_method: 'linear', models: [{ model: a, weight: 1 }] },
    ],
    ['use tokenizer in place of tokenizer_source', { ...LINEAR, tokenizer_source: 'union' }],
    ['use out_dtype in place of outDtype', { ...MERGEKITS, outDtype: 'F32' }],
    ['remove either method or merge_method', { ...LINEAR, merge_method: 'linear' }],
    [
      'models[0].wieght is not supported with linear; did you mean weight?',
      { method: 'linear', models: [{ source: a, wieght: 1 }] },
    ],
    ['density is not supported with linear', { ...LINEAR, density: 1 }],
    ['parameters.t is not supported with linear', { ...MERGEKITS, parameters: { t: 1 } }],
    ['modules is not supported', { ...MERGEKITS, modules: {} }],
    ['chat_template is not supported', { ...MERGEKITS, chat_template: 'auto' }],
    ['out_dtype must be F64, F32, F16 or BF16', { ...MERGEKITS, out_dtype: 'int8' }],
    ['outDtype must be F64, F32, F16 or BF16', { ...LINEAR, outDtype: 'I8' }],
    ['tokenizer.source is missing', { ...MERGEKITS, tokenizer: {} }],
    [
      'tokenizerOption is not supported with linear; did you mean tokenizer?',
      { ...LINEAR, tokenizerOption: 1 },
    ],
    [
      'tokenizer.tokens is not supported',
      { ...MERGEKITS, tokenizer: { source: 'union', tokens: {} } },
    ],
    [
      'tokenizer_source and tokenizer',
      { ...MERGEKITS, tokenizer: { source: a }, tokenizer_source: a },
    ],
    ['needs a base', { ...LINEAR, tokenizer: 'base' }],
    ['the model of the tokenizer is not in the recipe; list it', { ...LINEAR, tokenizer: 'other' }],
    ['dtype must be F64, F32, F16 or BF16', { ...LINEAR, dtype: 'F8_E4M3' }],
    ['outDtype must be', { ...LINEAR, outDtype: 'float' + '8' }],
    [
      'the model of the tokenizer is not in the recipe; did you mean union?',
      { ...LINEAR, tokenizer: 'unoin' },
    ],
    [
      'tokenizer.sourec is not supported; did you mean source?',
      { ...MERGEKITS, tokenizer: { sourec: 'union' } },
    ],
    ['seed must be an integer', { ...LINEAR, seed: -1 }],
    [
      'models[0].weight must be a number',
      { method: 'linear', models: [{ source: a, weight: '1' }] },
    ],
    [
      'models[0].weight must be a number',
      { method: 'linear', models: [{ source: a, weight: [] }] },
    ],
    [
      'models[0].weight must be a number',
      { method: 'linear', models: [{ source: a, weight: Number.NaN }] },
    ],
    [
      'a list of { filter, value }',
      { method: 'linear', models: [{ source: a, weight: [{ filter: 1, value: 1 }] }] },
    ],
    [
      'linear needs weight of a model for "model.layers.0.w"',
      { method: 'linear', models: [{ source: a }] },
    ],
    ['add up to 0', { method: 'linear', models: [{ source: a, weight: 0 }] }],
    [
      'models[0].normalize has no effect on a single model; list normalize for the whole recipe',
      { method: 'linear', models: [{ source: a, weight: 1, normalize: false }] },
    ],
    [
      'slices[0].sources[0].t has no effect',
      { method: 'slerp', base: a, slices: [{ sources: [{ source: a, layers: [0, 1], t: 1 }] }] },
    ],
    [
      'models[0].parameters.lambda has no effect',
      {
        merge_method: 'ties',
        base_model: a,
        models: [{ model: b, parameters: { weight: 1, lambda: 0.5 } }],
      },
    ],
    ['slerp needs a base', { method: 'slerp', models: [{ source: a }, { source: b }], t: 0.5 }],
    ['slerp needs a base', { method: 'slerp', models: [{ source: a }], t: 0.5 }],
    [
      'slerp takes 1 model besides the base, found 2',
      { method: 'slerp', base: a, models: [{ source: b }, { source: c }], t: 0.5 },
    ],
    ['slerp needs t for', { method: 'slerp', base: a, models: [{ source: b }] }],
    [
      'model_stock takes at least 2 models besides the base, found 1',
      { method: 'model_stock', base: a, models: [{ source: b }] },
    ],
    [
      'passthrough takes 1 model, found 2',
      { method: 'passthrough', models: [{ source: a }, { source: b }] },
    ],
    [
      'must be above 0, found 0',
      { method: 'ties', base: a, models: [{ source: b, weight: 1, density: 0 }] },
    ],
    [
      'layers must be [first, end)',
      { method: 'passthrough', slices: [{ sources: [{ source: a }] }] },
    ],
    [
      'layers must be [first, end)',
      { method: 'passthrough', slices: [{ sources: [{ source: a, layers: [1, 1] }] }] },
    ],
    [
      'has 1 layers, the recipe lists [0, 2)',
      { method: 'passthrough', slices: [{ sources: [{ source: a, layers: [0, 2] }] }] },
    ],
    [
      'have 1 and 2 layers',
      {
        method: 'linear',
        slices: [
          {
            sources: [
              { source: a, layers: [0, 1] },
              { source: b, layers: [0, 2] },
            ],
          },
        ],
      },
    ],
    [
      'needs the base among slices[0].sources',
      { method: 'slerp', t: 0.5, base: a, slices: [{ sources: [{ source: b, layers: [0, 1] }] }] },
    ],
  ])('%s', async (message, recipe) => {
    await expect(mergeModels(recipe as MergeModelsRecipe)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_RECIPE',
      message: expect.stringContaining(message),
    });
  });

  it.each<[string, object]>([
    ['found "karcher"', { merge_method: 'karcher', models: [] }],
    ['found "nuslerp"', { merge_method: 'nuslerp', models: [] }],
    ['found null', { merge_method: null, models: [] }],
    ['found undefined', { method: undefined, models: [] }],
    ['found undefined', { method: undefined, methode: 'slerp', models: [] }],
    ['found "slrep"; did you mean slerp?', { merge_method: 'slrep', models: [] }],
    ['found "dare-ties"; did you mean dare_ties?', { method: 'dare-ties', models: [] }],
    ['found "flaot16"; did you mean float16?', { ...LINEAR, dtype: 'flaot16' }],
    ['found "bfloat"; did you mean bfloat16?', { ...MERGEKITS, dtype: 'bfloat' }],
    ['found "float8"', { ...LINEAR, dtype: 'float8' }],
    ['found "F8_E4M3"', { ...LINEAR, dtype: 'F8_E4M3' }],
  ])('%s, at the end of the message', async (end, recipe) => {
    const error = await mergeModels(recipe as MergeModelsRecipe).catch((one: unknown) => one);
    expect(Object(error).code).toBe('SAFETENSORS_INVALID_RECIPE');
    expect(Object(error).message.slice(-end.length)).toBe(end);
  });
});

function file(name: string, text: string | Uint8Array): string {
  const path = join(temporaryPath('recipes'), name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

describe('a file of a recipe', () => {
  it.each<[string, string | Uint8Array, string]>([
    ['a.yml', 'a: !x 1', 'line 1: tags are not supported'],
    ['a.json', '{', 'cannot be parsed'],
    ['a.yml', Uint8Array.of(0xff), 'cannot be parsed'],
    ['a.yml', new Uint8Array(2 ** 20 + 1), 'the recipe has 1048577 bytes; shorten it to 1048576'],
    ['a.yml', '- a', 'must be an object'],
    ['a.yml', 'method: linear\nmodels: [\n', 'line 3: '],
    ['a.yml', 'method: linear\nmethod: ties', 'line 2: duplicated mapping key'],
    ['a.yml', 'method: linear\n<<: {dtype: F32}', '<<'],
    ['a.yml', 'method: linear\nmodels: [{source: a}]\n__proto__: {dtype: F32}', '__proto__'],
    ['a.yml', '', 'must be an object, found null'],
    ['a.yml', 'merge_method:\nmodels: [{model: a}]', 'merge_method must be one of linear, slerp'],
  ])('%s with %j is an error', async (name, text, message) => {
    const path = file(name, text);
    await expect(mergeModels(path)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_RECIPE',
      path,
      message: expect.stringContaining(message),
    });
  });

  it('that is missing is an error of the system', async () => {
    const path = temporaryPath('none.yml');
    await expect(mergeModels(path)).rejects.toMatchObject({
      ...{ code: 'ENOENT', path },
      message: expect.stringContaining('the recipe was not found'),
    });
  });

  it('in JSON leads to models next to it', async () => {
    const path = file(
      'recipe.json',
      JSON.stringify({ method: 'passthrough', models: [{ source: 'a' }] }),
    );
    await saveCheckpoint(join(dirname(path), 'a'), a);
    const merged = (await mergeModels(path)) as Checkpoint;
    expect(merged.getTensor('model.layers.0.w').toFloat32()).toEqual(W.values);
    const tensor = merged.getTensor('model.layers.0.w');
    merged.close();
    expect(() => merged.keys()).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }),
    );
    expect(tensor.toFloat32()).toEqual(W.values);
  });
});

describe('models that differ', () => {
  const merge = (other: Tensors, options = {}): ReturnType<typeof mergeModels> =>
    mergeModels(
      {
        method: 'linear',
        models: [
          { source: checkpoint({ x: W, y: W }), weight: 1 },
          { source: checkpoint(other), weight: 1 },
        ],
      },
      options,
    );
  const skip = { unmatched: 'skip' };

  it.each<[string, string, Tensors]>([
    ['UNMATCHED', 'a model lacks "y"', { x: W }],
    ['UNMATCHED', 'only a model has "z"', { x: W, y: W, z: W }],
    [
      'MISMATCH',
      '"x" of shape [2, 2], but a model has "x" of shape [4]',
      { x: valuesOf([4], [1, 2, 3, 4]), y: W },
    ],
  ])('%s: %s', async (code, message, other) => {
    await expect(merge(other)).rejects.toMatchObject({
      code: `SAFETENSORS_MERGE_${code}`,
      message: expect.stringContaining(message),
    });
    const merged = (await merge(other, skip)) as Checkpoint & MergedModelInfo;
    expect(merged.keys()).toEqual(['x', 'y']);
    expect(merged.warnings).toEqual([expect.stringContaining(message.split(',')[0] as string)]);
    for (const [, tensor] of merged) expect(tensor.toFloat32()).toEqual(W.values);
  });

  it.each([{ z: W }, { x: valuesOf([4], [1, 2, 3, 4]) }])(
    'completely are rejected whatever is left out',
    async (other) => {
      await expect(merge(other, skip)).rejects.toMatchObject({
        code: 'SAFETENSORS_MERGE_UNMATCHED',
        message: expect.stringContaining('has no tensor in common with the others'),
      });
    },
  );

  it('an adapter is rejected', async () => {
    const factors = { 'x.lora_A.weight': W, 'x.lora_B.weight': W };
    const { 'x.lora_A.weight': A, 'x.lora_B.weight': B } = factors;
    const ofPeft = { 'base_model.model.x.lora_A.weight': A, 'base_model.model.x.weight': B };
    for (const adapter of [factors, ofPeft]) {
      await expect(merge(adapter, skip)).rejects.toMatchObject({
        code: 'SAFETENSORS_MERGE_UNSUPPORTED',
        message: expect.stringContaining('is an adapter; merge it into its base first'),
      });
    }
  });

  it('quantized ones are rejected', async () => {
    const source = parse(
      serialize({
        'x.weight': { dtype: 'F8_E4M3', shape: [2, 2], data: new Uint8Array(4).fill(0x38) },
        'x.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1) },
      }),
    );
    await expect(
      mergeModels({ method: 'passthrough', models: [{ source }] }),
    ).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      message: expect.stringContaining('dequantize it first'),
    });
  });

  it('integers are copied from the first', async () => {
    const of = (value: number): Checkpoint =>
      parse(
        serialize({ ids: { dtype: 'I64', shape: [1], data: BigInt64Array.of(BigInt(value)) } }),
      );
    const models = [of(1), of(2)].map((source) => ({ source, weight: 1 }));
    const merged = (await mergeModels({ method: 'linear', models })) as Checkpoint;
    expect(merged.getTensor('ids').data).toEqual(BigInt64Array.of(1n));
    expect(Object(merged).changes).toEqual([{ name: 'ids', kind: 'copied' }]);
  });
});

it('values that are not finite fail a save, which leaves the target, and can be kept', async () => {
  const large = checkpoint({ x: valuesOf([1], [3e38]) });
  const recipe: MergeModelsRecipe = {
    method: 'linear',
    models: [{ source: large, weight: 2 }],
    normalize: false,
  };
  const folder = temporaryPath('merged');
  await saveCheckpoint(folder, a);
  const before = readFileSync(join(folder, 'model.safetensors'));
  await expect(saveCheckpoint(folder, await mergeModels(recipe))).rejects.toMatchObject({
    code: 'SAFETENSORS_NON_FINITE',
    tensor: 'x',
  });
  expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(before);
  await saveCheckpoint(folder, await mergeModels(recipe, { nonFinite: 'keep' }));
  expect(safeOpen(folder).getTensor('x').toFloat32()[0]).toBe(Number.POSITIVE_INFINITY);
});

it('filters that match nothing are warnings', async () => {
  const weight = [{ filter: 'layers', value: 1 }, { filter: 'lyaers', value: 2 }, { value: 3 }];
  const recipe = { method: 'linear', models: [{ source: a, weight }], normalize: false } as const;
  const merged = (await mergeModels(recipe)) as Checkpoint & MergedModelInfo;
  expect(merged.warnings).toEqual(['no tensor matches the filter "lyaers" of weight']);
  expect(merged.getTensor('model.layers.0.w').toFloat32()).toEqual(W.values);
});

it('other spellings of a path are the same model', async () => {
  const path = file('recipe.json', '');
  for (const [name, model] of Object.entries({ a, b, base: c })) {
    await saveCheckpoint(join(dirname(path), name), model);
  }
  const models = ['./base', 'a/', './/b'].map((source) => ({ source }));
  writeFileSync(path, JSON.stringify({ method: 'model_stock', base: 'base', models }));
  const merged = (await mergeModels(path)) as Checkpoint;
  const { slices } = JSON.parse(merged.metadata?.get('safetensors-mmap.merge') ?? '');
  expect(slices[0].sources).toHaveLength(3);
  merged.close();
});

it('arguments are checked', async () => {
  for (const recipe of [1, null, [], undefined]) {
    await expect(mergeModels(recipe as never)).rejects.toThrow(TypeError);
  }
  const options = [{ unmatched: true }, { nonFinite: 'x' }, { signal: 1 }, { seed: 1 }];
  for (const one of options) {
    await expect(mergeModels(LINEAR as MergeModelsRecipe, one as never)).rejects.toThrow();
  }
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(mergeModels(LINEAR as MergeModelsRecipe, { signal })).rejects.toThrow('enough');
});

it('a model with an adapter is merged as such', async () => {
  const [base, adapter] = [pathOf('peft-linear-f32', 'base'), pathOf('peft-linear-f32', 'adapter')];
  const merged = (await mergeModels({
    merge_method: 'passthrough',
    models: [{ model: `${base}+${adapter}` }],
  })) as Checkpoint;
  const expected = safeOpen(pathOf('peft-linear-f32', 'expected.safetensors'));
  for (const name of expected.keys()) {
    const [own, values] = [
      merged.getTensor(name).toFloat32(),
      expected.getTensor(name).toFloat32(),
    ];
    expect(
      Math.max(...own.map((value, i) => Math.abs(value - (values[i] as number)))),
    ).toBeLessThan(1e-6);
  }
  const { models } = JSON.parse(merged.metadata?.get('safetensors-mmap.merge') ?? '');
  const sha256 = expect.stringMatching(/^[\da-f]{64}$/);
  const adapters = [{ name: 'adapter', sha256, scale: 1 }];
  expect(models).toEqual([{ name: 'base', adapters, fingerprint: sha256 }]);
  merged.close();
  expect(existsSync(base)).toBe(true);
});
