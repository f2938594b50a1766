/** Tensors of quantized weights stay unchanged when the others are cast. */
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { QUANTIZED_MODELS } from '../../quantized/quantized-models.js';
import { convert, loadFile, safeOpen, saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const CASTS = ['BF16', 'F16', 'F32'] as const;

/** The weights alone: nothing says that the model is quantized. */
function withoutConfig(from: string): string {
  const folder = temporaryPath('source');
  mkdirSync(folder);
  for (const name of readdirSync(from).filter((file) => file.startsWith('model'))) {
    copyFileSync(join(from, name), join(folder, name));
  }
  return folder;
}

it.each(QUANTIZED_MODELS)('convert cast the rest of $id', async (model) => {
  for (const source of [model.path, withoutConfig(model.path)]) {
    const before = loadFile(source);
    for (const dtype of CASTS) {
      const isWide = (name: string): boolean =>
        /^(B?F16|F32)$/.test(before.get(name)?.dtype ?? '') && before.get(name)?.dtype !== dtype;
      const wide = [...before.keys()].filter(isWide).sort();
      const target = temporaryPath('target');
      const { cast, notCast } = await convert(source, target, { ...fast, dtype });
      expect([...cast].sort()).toEqual(wide.filter(model.isPlain));
      expect([...notCast].sort()).toEqual(wide.filter((name) => !model.isPlain(name)));
      const after = loadFile(target);
      expect(after.size).toBe(before.size);
      for (const [name, tensor] of before) {
        const written = after.get(name);
        if (model.isPlain(name) && isWide(name)) expect(written?.dtype).toBe(dtype);
        else {
          expect([name, written?.dtype, written?.shape]).toEqual([
            name,
            tensor.dtype,
            tensor.shape,
          ]);
          expect(Buffer.compare(tensor.bytes, written?.bytes as Uint8Array)).toBe(0);
        }
      }
    }
  }
});

const values = Float32Array.of(1 / 3, 2 / 3);
const MODEL = {
  'm.weight': { dtype: 'F8_E4M3', shape: [2], data: Uint8Array.of(1, 2) },
  'm.weight_scale_inv': { dtype: 'F32', shape: [2], data: values },
  'other.scales': { dtype: 'F32', shape: [2], data: values },
  'other.scale': { dtype: 'F32', shape: [2], data: values },
} as const;

it('tells a scale by a weight that is not chosen, or is in another file; other scales are cast', async () => {
  const [source, target] = [temporaryPath('source'), temporaryPath('target')];
  await saveCheckpoint(source, MODEL, { ...saving, maxShardSize: 8 });
  const names = (name: string): boolean => name !== 'm.weight';
  const rename = (name: string): string => `new.${name}`;
  const { cast, notCast } = await convert(source, target, {
    ...fast,
    names,
    rename,
    dtype: 'BF16',
  });
  expect([...cast].sort()).toEqual(['new.other.scale', 'new.other.scales']);
  expect(notCast).toEqual(['new.m.weight_scale_inv']);
});

it('casts a scale for which a dtype function returns a dtype', async () => {
  const [source, target] = [temporaryPath('source'), temporaryPath('target')];
  await saveCheckpoint(source, MODEL, saving);
  const dtype = (name: string): 'BF16' | undefined =>
    name.includes('scale_inv') ? 'BF16' : undefined;
  const { cast, notCast } = await convert(source, target, { ...fast, dtype });
  expect([cast, notCast]).toEqual([['m.weight_scale_inv'], []]);
  using checkpoint = safeOpen(target);
  expect(checkpoint.info('m.weight_scale_inv').dtype).toBe('BF16');
});
