/** Lists of the configuration that have an item for each layer. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Checkpoint, mergeModels, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

async function model(name: string, layers: number, config: string): Promise<string> {
  const folder = temporaryPath(name);
  mkdirSync(folder);
  const tensors = Array.from({ length: layers }, (_, i) => [
    `model.layers.${i}.w.weight`,
    { dtype: 'F32', shape: [1], data: Float32Array.of(i) },
  ]);
  await saveFile(join(folder, 'model.safetensors'), new Map(tensors as never));
  writeFileSync(join(folder, 'config.json'), config);
  return folder;
}

async function mergedConfig(recipe: object): Promise<string> {
  const merged = (await mergeModels(recipe as never)) as Checkpoint;
  const { bytes } = (await merged.sibling('config.json')) as { readonly bytes: Uint8Array };
  merged.close();
  return new TextDecoder().decode(bytes);
}

const slice = (...sources: object[]): object => ({ sources });

it('get the items of the layers of the result, as they are written', async () => {
  const base = await model(
    'base',
    4,
    `{"layer_types": ["a", "b",
 "c", "d"], "rope_layers": [1.0, NaN, {"x": [1]}, null], "eos_token_id": [1, 2, 3, 4],
 "num_hidden_layers": 4, "other_layers": [1, 2], "no_layers": [],
 "text_config": {"layer_types": [0, 1, 2, 3]}, "vision_config": {"layer_types": [0, 1, 2, 3]}}`,
  );
  const slices = [slice({ source: base, layers: [0, 2] }), slice({ source: base, layers: [1, 4] })];
  expect(await mergedConfig({ method: 'passthrough', slices })).toBe(
    `{"layer_types": ["a", "b", "b", "c", "d"], "rope_layers": [1.0, NaN, NaN, {"x": [1]}, null], "eos_token_id": [1, 2, 3, 4],
 "num_hidden_layers": 5, "other_layers": [1, 2], "no_layers": [],
 "text_config": {"layer_types": [0, 1, 1, 2, 3]}, "vision_config": {"layer_types": [0, 1, 2, 3]}}`,
  );
});

it('are those of the base, whatever their names if they are long', async () => {
  const items = (from: number): number[] => Array.from({ length: 9 }, (_, i) => from + i);
  const config = (from: number): string => JSON.stringify({ widths: items(from) });
  const [base, other] = [await model('base', 9, config(0)), await model('other', 9, config(100))];
  const slices = [
    slice(
      { source: other, layers: [6, 8], weight: 1 },
      { source: base, layers: [2, 4], weight: 1 },
    ),
  ];
  expect(await mergedConfig({ method: 'linear', base, slices })).toBe('{"widths":[2, 3]}');
});

it('stay when whole models are merged', async () => {
  const config = '{"layer_types": ["a",  "b"]}';
  const base = await model('base', 2, config);
  expect(await mergedConfig({ method: 'passthrough', models: [{ source: base }] })).toBe(config);
});
