/** The input that the error of a merged weight with NaN or an infinity names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  mergeAdapters,
  mergeModels,
  open,
  openRemote,
  saveCheckpoint,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { checkpoint, peft, type Tensors, valuesOf } from './make-adapter.js';

const SHAPE = [300, 1000];
const finite = valuesOf(SHAPE, new Float32Array(300_000).fill(0.5));

/** Values whose last row has NaN or an infinity: in another block than the first rows. */
function notFinite(value: number): typeof finite {
  const values = finite.values.slice();
  values[values.length - 1] = value;
  return { ...finite, values };
}

/** A checkpoint of two shards, one for each tensor. */
async function folderOf(tensors: Tensors): Promise<string> {
  const folder = join(temporaryPath('models'), 'tune');
  await saveCheckpoint(folder, checkpoint(tensors), { maxShardSize: '2MB' });
  return folder;
}

const linear = { method: 'linear', normalize: false } as const;
const slerp = { method: 'slerp', t: 0.5 } as const;

describe('a model with values that are not finite', () => {
  const base = checkpoint({ a: finite, x: finite });

  it.each([
    ['linear', NaN],
    ['linear', Number.NEGATIVE_INFINITY],
    ['slerp', NaN],
  ] as const)('is named with its shard: %s with %d', async (method, value) => {
    const folder = await folderOf({ a: finite, x: notFinite(value) });
    const recipe =
      method === 'slerp'
        ? { ...slerp, base, models: [{ source: folder }] }
        : { ...linear, models: [base, folder].map((source) => ({ source, weight: 1 })) };
    const expected = {
      code: 'SAFETENSORS_NON_FINITE',
      path: join(folder, 'model-00002-of-00002.safetensors'),
      tensor: 'x',
      message: expect.stringContaining(
        'model "tune" contains NaN or an infinity; pass a version without such values, or pass nonFinite',
      ),
    };
    for (const dtype of ['F32', 'F64'] as const) {
      const merged = (await mergeModels({ ...recipe, dtype } as never)) as Checkpoint;
      expect(merged.getTensor('a').toFloat32()[0]).toBeGreaterThan(0);
      expect(() => merged.getTensor('x').bytes).toThrow(expect.objectContaining(expected));
      await expect(saveCheckpoint(temporaryPath('merged'), merged)).rejects.toMatchObject(expected);
      merged.close();
    }
  });

  it('is named by its name in that model, and remote', async () => {
    const folder = await folderOf({ 'h.0.x': finite, 'h.1.x': notFinite(NaN) });
    const path = join(folder, 'model-00002-of-00002.safetensors');
    const remote = await openRemote(new Blob([readFileSync(path)]));
    const sources = [{ source: remote, layers: [1, 2], weight: 1 }];
    const merged = await mergeModels({ ...linear, slices: [{ sources }] } as never);
    await expect(merged.getTensor('h.0.x')).rejects.toMatchObject({
      code: 'SAFETENSORS_NON_FINITE',
      tensor: 'h.1.x',
      message: expect.stringContaining('contains NaN or an infinity; pass a version'),
    });
  });

  it('is none when a sum of finite values is too large', async () => {
    const large = checkpoint({ x: valuesOf([1], [3e38]) });
    const models = [{ source: large, weight: 1e300 }];
    const merged = (await mergeModels({ ...linear, models })) as Checkpoint;
    expect(() => merged.getTensor('x').bytes).toThrow(
      expect.objectContaining({
        tensor: 'x',
        message: expect.stringContaining(
          'the merged weight contains NaN or an infinity; check scales and weights, or pass nonFinite',
        ),
      }),
    );
  });
});

describe('of a base and adapters', () => {
  const adapterOf = (rows: readonly number[]) =>
    peft(
      {
        'x.lora_A.weight': valuesOf([1, 1000], new Float32Array(1000).fill(1)),
        'x.lora_B.weight': valuesOf(
          [300, 1],
          Float32Array.from({ length: 300 }, (_, i) => rows[i] ?? 1),
        ),
      },
      { r: 1, lora_alpha: 1 },
    );

  it('the base is named with its shard', async () => {
    const folder = await folderOf({ a: finite, 'x.weight': notFinite(NaN) });
    const expected = {
      code: 'SAFETENSORS_NON_FINITE',
      path: join(folder, 'model-00002-of-00002.safetensors'),
      tensor: 'x.weight',
      message: expect.stringContaining('the base contains NaN or an infinity; pass a version'),
    };
    const merged = (await mergeAdapters(await open(folder), [adapterOf([])])) as Checkpoint;
    expect(() => merged.getTensor('x.weight').bytes).toThrow(expect.objectContaining(expected));
    await expect(saveCheckpoint(temporaryPath('merged'), merged)).rejects.toMatchObject(expected);
    merged.close();
  });

  it('the second adapter is named with its tensor', async () => {
    const folder = join(temporaryPath('adapters'), 'style');
    const { source, config } = adapterOf([1, Number.POSITIVE_INFINITY]);
    await saveCheckpoint(folder, source as Checkpoint);
    const path = join(folder, 'model.safetensors');
    const adapters = [adapterOf([]), { source: path, config }];
    const expected = {
      code: 'SAFETENSORS_NON_FINITE',
      path,
      tensor: 'base_model.model.x.lora_B.weight',
      message: expect.stringContaining('adapter "model.safetensors" contains NaN or an infinity'),
    };
    const base = checkpoint({ 'x.weight': finite });
    const merged = await mergeAdapters(base, adapters as never);
    expect(() => merged.getTensor('x.weight').bytes).toThrow(expect.objectContaining(expected));
    const folderOfBase = await folderOf({ 'x.weight': finite });
    const file = readFileSync(join(folderOfBase, 'model.safetensors'));
    const remote = await mergeAdapters(await openRemote(new Blob([file])), adapters as never);
    await expect(remote.getTensor('x.weight')).rejects.toMatchObject(expected);
  });

  it('the scales are, when all values are finite', async () => {
    const adapters = [{ ...adapterOf([100]), scale: 1e307 }];
    const merged = await mergeAdapters(checkpoint({ 'x.weight': finite }), adapters);
    expect(() => merged.getTensor('x.weight').bytes).toThrow(
      expect.objectContaining({ message: expect.stringContaining('check scales and weights') }),
    );
  });
});
