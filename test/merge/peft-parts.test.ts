/** Parts of PEFT adapters besides factors: what replaces tensors, tied heads, several adapters, patterns of scales. */
import { describe, expect, it } from 'vitest';
import { type Checkpoint, mergeAdapters, parse, safeOpen, serialize } from '../support/api.js';
import { writeBelow } from '../support/make-checkpoint.js';
import { temporaryPath } from '../support/make-file.js';
import { checkpoint, expectValues, merged, peft, valuesOf } from './make-adapter.js';

const W = valuesOf([2, 2], [1, 2, 3, 4]);
const A = valuesOf([1, 2], [1, 1]);
const B = valuesOf([2, 1], [1, 2]);
const ONE = { r: 1, lora_alpha: 1 };
/** What `B · A` adds to W. */
const SUM = [2, 3, 5, 6];

const LORA = { 'x.lora_A.weight': A, 'x.lora_B.weight': B };

describe('tensors that are replaced', () => {
  const bias = valuesOf([2], [7, 8]);
  const base = { 'x.weight': W, 'x.bias': valuesOf([2], [0, 0]), 'head.weight': W };
  const replaced = valuesOf([2, 2], [9, 8, 7, 6]);

  it.each([
    { 'x.bias': bias, 'head.weight': replaced },
    { 'x.base_layer.bias': bias, 'head.modules_to_save.weight': replaced },
    { 'x.base_layer.bias': bias, 'head.modules_to_save.default.weight': replaced },
    {
      'x.bias': bias,
      'head.original_module.weight': W,
      'head.modules_to_save.weight': W,
      'head.weight': replaced,
    },
  ])('%j', async (others) => {
    const model = await merged(base, peft({ ...LORA, ...others }, ONE));
    expectValues(model, 'x.weight', SUM);
    expectValues(model, 'x.bias', [7, 8]);
    expectValues(model, 'head.weight', [9, 8, 7, 6]);
    expect(model.changes.map(({ kind }) => kind).sort()).toEqual(['lora', 'replaced', 'replaced']);
  });

  it('come before what is added to them', async () => {
    const tensors = { ...LORA, 'x.lora_B.bias': valuesOf([2], [1, 1]), 'x.bias': bias };
    expectValues(await merged(base, peft(tensors, { ...ONE, lora_bias: true })), 'x.bias', [8, 9]);
  });
});

describe('trained tokens', () => {
  const base = { 'embed.weight': valuesOf([3, 2], [1, 2, 3, 4, 5, 6]) };
  const tensors = { 'embed.token_adapter.trainable_tokens_delta': valuesOf([2, 2], [9, 8, 7, 6]) };

  it.each([[[2, 0]], [{ embed: [2, 0] }]])('%j are rows in that order', async (indices) => {
    const model = await merged(base, peft(tensors, { trainable_token_indices: indices }));
    expectValues(model, 'embed.weight', [7, 6, 3, 4, 9, 8]);
    expect(model.getSlice('embed.weight', '2').toFloat32()).toEqual(Float32Array.of(9, 8));
    expect(model.changes).toEqual([{ name: 'embed.weight', kind: 'tokens', rank: null, scale: 1 }]);
  });

  it.each([
    [[0], 'lists 1 rows, but base_model.model.embed.token_adapter.trainable_tokens_delta has 2'],
    [[0, 3], 'lists row 3'],
    [{ other: [0, 1] }, 'has no list of rows'],
  ])('%j are an error', async (indices, message) => {
    const adapter = peft(tensors, { trainable_token_indices: indices });
    await expect(merged(base, adapter)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_ADAPTER',
      message: expect.stringContaining(message),
    });
  });
});

describe('a tied head', () => {
  const embed = valuesOf([2, 2], [1, 2, 3, 4]);

  function tied(names: readonly string[]): Checkpoint {
    const folder = temporaryPath('tied');
    const tensors = new Map(
      names.map((name) => [name, { dtype: 'F32', shape: [2, 2], data: embed.values }] as const),
    );
    writeBelow(folder, 'model.safetensors', serialize(tensors as never));
    writeBelow(folder, 'config.json', '{"tie_word_embeddings":true}');
    return safeOpen(folder);
  }

  it('gets the same tokens', async () => {
    const base = tied(['embed.weight', 'lm_head.weight']);
    const tensors = { 'embed.token_adapter.trainable_tokens_delta': valuesOf([1, 2], [9, 8]) };
    const model = await mergeAdapters(base, [peft(tensors, { trainable_token_indices: [1] })]);
    expectValues(model, 'embed.weight', [1, 2, 9, 8]);
    expectValues(model, 'lm_head.weight', [1, 2, 9, 8]);
  });

  it('cannot be changed by itself', async () => {
    const tensors = { 'lm_head.lora_A.weight': A, 'lm_head.lora_B.weight': B };
    const merging = mergeAdapters(tied(['embed.weight', 'lm_head.weight']), [peft(tensors, ONE)]);
    await expect(merging).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      tensor: 'lm_head.weight',
    });
  });

  it('that is not stored may be saved twice', async () => {
    const replaced = valuesOf([2, 2], [9, 8, 7, 6]);
    const copies = { 'embed.weight': replaced, 'lm_head.weight': replaced };
    expectValues(
      await mergeAdapters(tied(['embed.weight']), [peft(copies)]),
      'embed.weight',
      [9, 8, 7, 6],
    );
    const others = { 'embed.weight': replaced, 'lm_head.weight': W };
    await expect(mergeAdapters(tied(['embed.weight']), [peft(others)])).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNMATCHED',
    });
  });
});

describe('parameters of one module', () => {
  it('wrap each other in the order of the configuration', async () => {
    const base = {
      'm.experts.gate_up_proj': valuesOf([1, 1, 2], [0, 0]),
      'm.experts.down_proj': valuesOf([1, 2, 1], [0, 0]),
    };
    const tensors = {
      'm.experts.base_layer.lora_A.weight': valuesOf([1, 2], [1, 2]),
      'm.experts.base_layer.lora_B.weight': valuesOf([1, 1], [3]),
      'm.experts.lora_A.weight': valuesOf([1, 1], [5]),
      'm.experts.lora_B.weight': valuesOf([2, 1], [1, 2]),
    };
    const names = ['experts.gate_up_proj', 'experts.down_proj'];
    const model = await merged(base, peft(tensors, { ...ONE, target_parameters: names }));
    expectValues(model, 'm.experts.gate_up_proj', [3, 6]);
    expectValues(model, 'm.experts.down_proj', [5, 10]);
  });
});

describe('several adapters', () => {
  it('apply one after the other, each with its strength', async () => {
    const base = checkpoint({ 'x.weight': W });
    const model = await mergeAdapters(base, [
      { ...peft(LORA, ONE), scale: 2 },
      { ...peft({ 'x.ia3_l': valuesOf([2, 1], [2, 3]) }, { peft_type: 'IA3' }) },
    ]);
    expectValues(model, 'x.weight', [6, 8, 21, 24]);
    expect(model.changes).toEqual([
      { name: 'x.weight', kind: 'lora', rank: 1, scale: 2 },
      { name: 'x.weight', kind: 'ia3', rank: null, scale: 1 },
    ]);
  });

  it('of which one is in the base already are an error', async () => {
    const base = checkpoint({ 'x.weight': W }, 'F32', { format: 'pt' });
    const model = await mergeAdapters(base, [peft(LORA, ONE)]);
    expect([...(model.metadata ?? [])].map(([key]) => key)).toEqual([
      'format',
      'safetensors-mmap.adapters',
    ]);
    const code = 'SAFETENSORS_ALREADY_MERGED';
    await expect(mergeAdapters(model, [peft(LORA, ONE)])).rejects.toMatchObject({ code });
    const saved = parse(serialize(model));
    await expect(mergeAdapters(saved, [peft(LORA, ONE)])).rejects.toMatchObject({ code });
    const twice = mergeAdapters(base, [peft(LORA, ONE), peft(LORA, ONE)]);
    await expect(twice).rejects.toMatchObject({ code });
  });
});

it('strengths of single weights are chosen by patterns', async () => {
  const base = checkpoint({ 'a.x.weight': W, 'b.x.weight': W, 'c.x.weight': W });
  const tensors = Object.fromEntries(
    ['a', 'b', 'c'].flatMap((name) => [
      [`${name}.x.lora_A.weight`, A],
      [`${name}.x.lora_B.weight`, B],
    ]),
  );
  const scales = [
    ['a.*', 0],
    ['*b.x*', 2],
  ] as const;
  const model = await mergeAdapters(base, [{ ...peft(tensors, ONE), scale: 3, scales }]);
  expectValues(model, 'a.x.weight', [1, 2, 3, 4]);
  expectValues(model, 'b.x.weight', [3, 4, 7, 8]);
  expectValues(model, 'c.x.weight', [4, 5, 9, 10]);
});

it('names may have a first part more or less than the base, or are changed', async () => {
  for (const name of ['x', 'model.x', 'y.x']) {
    const tensors = { [`${name}.lora_A.weight`]: A, [`${name}.lora_B.weight`]: B };
    expectValues(await merged({ 'x.weight': W }, peft(tensors, ONE)), 'x.weight', SUM);
  }
  const model = await merged({ 'model.x.weight': W, 'model.y.weight': W }, peft(LORA, ONE));
  expectValues(model, 'model.x.weight', SUM);
  const rename = (path: string): string => `new.${path}`;
  const renamed = await merged({ 'new.x.weight': W }, { ...peft(LORA, ONE), rename });
  expectValues(renamed, 'new.x.weight', SUM);
});
