/** Adapters and bases that are rejected before anything is computed, and values that fail a save. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type AdapterInput,
  type Checkpoint,
  dequantized,
  mergeAdapters,
  parse,
  type Source,
  safeOpen,
  saveCheckpoint,
  serialize,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { pathOf } from './fixtures.js';
import { checkpoint, merged, peft, type Tensors, valuesOf } from './make-adapter.js';

const W = valuesOf([2, 2], [1, 2, 3, 4]);
const A = valuesOf([1, 2], [1, 1]);
const B = valuesOf([2, 1], [1, 2]);
const ONE = { r: 1, lora_alpha: 1 };
const LORA = { 'x.lora_A.weight': A, 'x.lora_B.weight': B };
const bare = (tensors: Tensors): AdapterInput<Source> => ({ source: checkpoint(tensors) });

describe('an adapter is rejected', () => {
  it.each<[string, string, AdapterInput<Source>]>([
    [
      'MERGE_UNMATCHED',
      'has keys that match nothing in the base: "base_model.model.y.lora_A.weight"',
      peft({ ...LORA, 'y.lora_A.weight': A, 'y.lora_B.weight': B }, ONE),
    ],
    [
      'MERGE_UNMATCHED',
      'pass another adapter, or the base that it was trained on',
      peft({ 'y.lora_A.weight': A, 'y.lora_B.weight': B }, ONE),
    ],
    ['MERGE_UNMATCHED', '"base_model.model.y.weight"', peft({ ...LORA, 'y.weight': W }, ONE)],
    ['MERGE_UNMATCHED', 'has no tensors; pass another adapter', bare({})],
    [
      'MERGE_UNMATCHED',
      'has no weights of adapters, only "x.weight", "y0", "y1" and 2 more; pass another adapter',
      bare({ 'x.weight': W, y0: A, y1: A, y2: A, y3: A }),
    ],
    [
      'MERGE_UNMATCHED',
      'has no tensors of the component te2',
      { ...bare({ 'lora_te1_x.lora_down.weight': A }), component: 'te2' },
    ],
    [
      'MERGE_UNMATCHED',
      'no weight of the base matches "*.down_block.*" in scales; pass unmatched',
      {
        ...peft(LORA, ONE),
        scales: [
          ['x.*', 1],
          ['*.down_block.*', 0.5],
        ],
      },
    ],
    ['INVALID_ADAPTER', 'the configuration has no peft_type', { ...peft(LORA), config: { r: 1 } }],
    [
      'INVALID_ADAPTER',
      'the metadata lora_adapter_metadata is not valid JSON',
      { source: checkpoint({ 'unet.x.lora_A.weight': A }, 'F32', { lora_adapter_metadata: '{' }) },
    ],
    [
      'MERGE_UNMATCHED',
      'lacks factors that its configuration lists, for "z.weight"',
      peft(LORA, { ...ONE, target_modules: ['x', 'z'] }),
    ],
    [
      'MERGE_UNMATCHED',
      '"x.other"',
      bare({ 'x.other': A, 'lora_unet_x.lora_down.weight': A, 'lora_unet_x.lora_up.weight': B }),
    ],
    [
      'MERGE_UNMATCHED',
      '"base_model.model.x.lora_B.bias"',
      peft({ ...LORA, 'x.lora_B.bias': valuesOf([2], [1, 1]) }, ONE),
    ],
    [
      'MERGE_MISMATCH',
      'x: [3, 1] × [1, 2] does not fit "x.weight" of shape [2, 2]',
      peft({ ...LORA, 'x.lora_B.weight': valuesOf([3, 1], [1, 2, 3]) }, ONE),
    ],
    [
      'MERGE_MISMATCH',
      '"x.weight" of shape [2, 2]',
      peft({ 'x.weight': valuesOf([2, 3], [1, 2, 3, 4, 5, 6]) }, ONE),
    ],
    [
      'INVALID_ADAPTER',
      'base_model.model.x.lora_A.weight has no counterpart',
      peft({ 'x.lora_A.weight': A }, ONE),
    ],
    [
      'INVALID_ADAPTER',
      'lora_unet_x.hada_w1_a has no counterpart',
      bare({ 'lora_unet_x.hada_w1_a': B }),
    ],
    [
      'INVALID_ADAPTER',
      'has factors of rank 1, but the configuration lists 2',
      peft(LORA, { r: 2 }),
    ],
    ['INVALID_ADAPTER', 'has no number lora_alpha', peft(LORA, { ...ONE, lora_alpha: 'x' })],
    [
      'INVALID_ADAPTER',
      'rank_pattern["("] is not a valid regular expression',
      peft(LORA, { ...ONE, rank_pattern: { '(': 1 } }),
    ],
    ['MERGE_UNSUPPORTED', 'too complex', peft(LORA, { ...ONE, rank_pattern: { '(a+)+b': 1 } })],
    [
      'INVALID_ADAPTER',
      'the scale of "x.weight" is Infinity',
      bare({
        'lora_unet_x.lora_down.weight': A,
        'lora_unet_x.lora_up.weight': B,
        'lora_unet_x.alpha': valuesOf([], [Number.POSITIVE_INFINITY]),
      }),
    ],
    [
      'INVALID_ADAPTER',
      '"base_model.model.x.lora_A.one.weight", "base_model.model.x.lora_A.two.weight" are the same part of one module; save each adapter in a separate file',
      peft({ 'x.lora_A.one.weight': A, 'x.lora_B.one.weight': B, 'x.lora_A.two.weight': A }, ONE),
    ],
    ['MERGE_UNSUPPORTED', 'peft_type "OFT"', peft(LORA, { peft_type: 'OFT' })],
    ['MERGE_UNSUPPORTED', 'use_qalora', peft(LORA, { ...ONE, use_qalora: true })],
    ['MERGE_UNSUPPORTED', 'layer_replication', peft(LORA, { ...ONE, layer_replication: [[0, 1]] })],
    ['MERGE_UNSUPPORTED', 'OFT or BOFT', bare({ 'lora_unet_x.oft_blocks': A })],
    ['MERGE_UNSUPPORTED', 'GLoRA', bare({ 'lora_unet_x.a1.weight': A })],
  ])('%s: %s', async (code, message, adapter) => {
    const merging = merged({ 'x.weight': W, 'z.weight': W }, adapter);
    await expect(merging).rejects.toMatchObject({
      code: `SAFETENSORS_${code}`,
      message: expect.stringContaining(message),
    });
  });
});

it("keys without a place are left out with unmatched: 'skip'", async () => {
  const adapter = peft({ ...LORA, 'y.lora_A.weight': A, 'y.lora_B.weight': B }, ONE);
  const model = await mergeAdapters(checkpoint({ 'x.weight': W }), [adapter], {
    unmatched: 'skip',
  });
  expect(model.changes).toEqual([{ name: 'x.weight', kind: 'lora', rank: 1, scale: 1 }]);
  const none = mergeAdapters(checkpoint({ 'z.weight': W }), [adapter], { unmatched: 'skip' });
  await expect(none).rejects.toMatchObject({ code: 'SAFETENSORS_MERGE_UNMATCHED' });
});

it("patterns of scales that match nothing are ignored with unmatched: 'skip'", async () => {
  const adapter = { ...peft(LORA, ONE), scales: [['y', 0.5]] } as const;
  const options = { unmatched: 'skip' } as const;
  const model = await mergeAdapters(checkpoint({ 'x.weight': W }), [adapter], options);
  expect(model.changes).toEqual([{ name: 'x.weight', kind: 'lora', rank: 1, scale: 1 }]);
});

describe('an adapter that is merged twice is rejected', () => {
  const tensors = { 'lora_te1_x.lora_down.weight': A, 'lora_te1_x.lora_up.weight': B };
  const both = {
    ...tensors,
    'lora_unet_y.lora_down.weight': A,
    'lora_unet_y.lora_up.weight': B,
  };
  const base = checkpoint({ 'x.weight': W, 'y.weight': W });

  it.each([
    ['is listed twice; list it once', [bare(tensors), bare(tensors)]],
    ['is listed twice', [bare(both), { ...bare(both), component: 'te1' } as const]],
  ])('%s', async (message, adapters) => {
    await expect(mergeAdapters(base, adapters)).rejects.toMatchObject({
      code: 'SAFETENSORS_ALREADY_MERGED',
      message: expect.stringContaining(message),
    });
  });

  it('unless its components are merged one after the other', async () => {
    const first = await mergeAdapters(base, [{ ...bare(both), component: 'te1' }]);
    const saved = parse(serialize(first));
    const second = await mergeAdapters(saved, [{ ...bare(both), component: 'unet' }]);
    expect(second.getTensor('x.weight').toFloat32()).toEqual(Float32Array.of(2, 3, 5, 6));
    expect(second.getTensor('y.weight').toFloat32()).toEqual(Float32Array.of(2, 3, 5, 6));
    await expect(mergeAdapters(saved, [{ ...bare(both), component: 'te1' }])).rejects.toMatchObject(
      {
        code: 'SAFETENSORS_ALREADY_MERGED',
        message: expect.stringContaining('start from the original base'),
      },
    );
  });
});

it('the metadata records strengths of single weights', async () => {
  const adapter = { ...peft(LORA, ONE), scale: 0.5, scales: [['x.*', 0.25]] } as const;
  const model = await mergeAdapters(checkpoint({ 'x.weight': W }), [adapter]);
  expect(JSON.parse(model.metadata?.get('safetensors-mmap.adapters') ?? '')).toEqual([
    { name: null, sha256: expect.any(String), scale: 0.5, scales: [['x.*', 0.25]] },
  ]);
});

it('an adapter that is passed as the base is named as such', async () => {
  const { source } = peft(LORA, ONE);
  const merging = mergeAdapters(source as Checkpoint, [peft({ ...LORA, ...LORA }, ONE)]);
  await expect(merging).rejects.toMatchObject({
    message: expect.stringContaining('the base is an adapter: pass the model'),
  });
});

describe('a base', () => {
  const codes = serialize({
    'x.weight': { dtype: 'F8_E4M3', shape: [2, 2], data: new Uint8Array(4).fill(0x38) },
    'x.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1) },
  });

  it('that is quantized is rejected, and merged once it is dequantized', async () => {
    const base = parse(codes);
    await expect(mergeAdapters(base, [peft(LORA, ONE)])).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      message: expect.stringContaining('dequantize it first'),
    });
    const model = await mergeAdapters(await dequantized(base), [peft(LORA, ONE)]);
    expect(model.getTensor('x.weight').toFloat32()).toEqual(Float32Array.of(2, 2, 3, 3));
  });

  it('with integers in a changed weight is rejected', async () => {
    const base = parse(
      serialize({ 'x.weight': { dtype: 'I32', shape: [2, 2], data: new Int32Array(4) } }),
    );
    await expect(mergeAdapters(base, [peft(LORA, ONE)])).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      tensor: 'x.weight',
    });
  });
});

it('an adapter of PEFT needs its configuration', async () => {
  const { source } = peft(LORA, ONE);
  await expect(mergeAdapters(checkpoint({ 'x.weight': W }), [source])).rejects.toMatchObject({
    code: 'SAFETENSORS_INVALID_ADAPTER',
    message: expect.stringContaining('adapter_config.json'),
  });
});

describe('values that are not finite', () => {
  it('fail a save, which leaves the target, and can be kept', async () => {
    const base = safeOpen(pathOf('peft-nan', 'base'));
    const adapter = pathOf('peft-nan', 'adapter');
    const folder = temporaryPath('merged');
    await saveCheckpoint(folder, base);
    const before = readFileSync(join(folder, 'model.safetensors'));
    const failed = { code: 'SAFETENSORS_NON_FINITE', tensor: expect.stringContaining('layers.') };
    const model = await mergeAdapters(base, [adapter]);
    await expect(saveCheckpoint(folder, model)).rejects.toMatchObject(failed);
    expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(before);
    await saveCheckpoint(folder, await mergeAdapters(base, [adapter], { nonFinite: 'keep' }));
  });

  it.each([
    ['F16', 40_000],
    ['BF16', 3e38],
    ['F32', 3e38],
  ] as const)('include what is too large for %s', async (dtype, large) => {
    const base = { 'x.weight': valuesOf([1, 1], [large]) };
    const tensors = {
      'x.lora_A.weight': valuesOf([1, 1], [large]),
      'x.lora_B.weight': valuesOf([1, 1], [1]),
    };
    const model = await merged(base, peft(tensors, ONE), dtype);
    expect(() => model.getTensor('x.weight').bytes).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_NON_FINITE', tensor: 'x.weight' }),
    );
    const kept = await mergeAdapters(checkpoint(base, dtype), [peft(tensors, ONE)], {
      nonFinite: 'keep',
    });
    expect(kept.getTensor('x.weight').toFloat32()[0]).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('arguments', () => {
  const base = checkpoint({ 'x.weight': W });

  it.each([
    [[], RangeError],
    ['my-adapter', TypeError],
    [[{ source: 'a', scale: Number.NaN }], RangeError],
    [[{ source: 'a', scale: '1' }], TypeError],
    [[{ source: 'a', strength: 1 }], TypeError],
    [[{ source: 'a', scales: [['*', 'x']] }], TypeError],
    [[{ source: 'a', component: 'vae' }], RangeError],
    [[{ source: 'a', rename: {} }], TypeError],
  ])('%j are rejected', async (adapters, type) => {
    await expect(mergeAdapters(base, adapters as never)).rejects.toThrow(type);
  });

  it('are checked', async () => {
    const adapters = [peft(LORA, ONE)];
    await expect(mergeAdapters({} as never, adapters)).rejects.toThrow(TypeError);
    const options = [{ unmatched: true }, { nonFinite: 'x' }, { signal: 1 }, { scale: 1 }];
    for (const one of options) {
      await expect(mergeAdapters(base, adapters, one as never)).rejects.toThrow();
    }
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(mergeAdapters(base, adapters, { signal })).rejects.toThrow('enough');
  });
});

it('warnings name another base, and initializations that changed it', async () => {
  const config = {
    ...ONE,
    base_model_name_or_path: 'org/other',
    init_lora_weights: 'pissa_niter_4',
  };
  const folder = temporaryPath('base');
  await saveCheckpoint(folder, checkpoint({ 'x.weight': W }));
  const { warnings } = await mergeAdapters(safeOpen(folder), [peft(LORA, config)]);
  expect(warnings).toEqual([
    'the adapter was trained on org/other, the base is base',
    'the adapter was initialized by pissa_niter_4, which changes the base: merge it into that base',
  ]);
});
