/** Where the configuration comes from, and what a logical view of a checkpoint holds. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCheckpoint, parse, safeOpen, serialize } from '../../src/index.js';
import { dequantized, TensorNotFoundError } from '../../src/quantized.js';
import { temporaryPath } from '../support/make-file.js';

const FP8 = serialize({
  'm.weight': { dtype: 'F8_E4M3', shape: [192, 256], data: new Uint8Array(192 * 256) },
  'm.weight_scale': { dtype: 'F32', shape: [3, 8], data: new Float32Array(24) },
});

/** A folder with a model and these files of JSON. */
function folderWith(files: Readonly<Record<string, unknown>>): string {
  const folder = temporaryPath('model');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'model.safetensors'), FP8);
  for (const [name, value] of Object.entries(files)) {
    writeFileSync(join(folder, name), JSON.stringify(value));
  }
  return folder;
}

it.each([
  [
    'config.json',
    { quantization_config: { quant_method: 'fp8', weight_block_size: [64, 32] } },
    'fp8',
  ],
  ['config.json', { text_config: { quantization_config: { quant_method: 'fp8' } } }, 'fp8'],
  ['config.json', { compression_config: { config_groups: {} } }, 'compressed-tensors'],
  ['hf_quant_config.json', { quantization: { quant_algo: 'FP8' } }, 'modelopt'],
  ['quantize_config.json', { bits: 4, group_size: 128, desc_act: false }, 'gptq'],
  ['quant_config.json', { w_bit: 4, q_group_size: 128, version: 'GEMM' }, 'awq'],
])('%s beside the weights is read: %j', async (name, value, method) => {
  const folder = folderWith({ [name]: value });
  expect((await dequantized(openCheckpoint(folder))).method).toBe(method);
  expect((await dequantized(safeOpen(join(folder, 'model.safetensors')))).method).toBe(method);
});

it('prefers what it is given', async () => {
  const folder = folderWith({ 'config.json': { quantization_config: { quant_method: 'mxfp8' } } });
  const config = { quantization_config: { quant_method: 'fp8', weight_block_size: [64, 32] } };
  const model = await dequantized(openCheckpoint(folder), { config });
  expect([model.method, model.info('m.weight').block]).toEqual(['fp8', [64, 32]]);
  expect((await dequantized(openCheckpoint(folder), { config: null })).method).toBe(null);
});

it('ignores files that are no JSON', async () => {
  const folder = folderWith({});
  writeFileSync(join(folder, 'config.json'), '{"quantization_config":');
  expect((await dequantized(openCheckpoint(folder))).method).toBe(null);
});

it('knows logical names only', async () => {
  const model = await dequantized(parse(FP8));
  expect([model.size, model.keys()]).toEqual([1, ['m.weight']]);
  expect([model.has('m.weight'), model.has('m.weight_scale')]).toEqual([true, false]);
  expect(() => model.getTensor('m.weight_scale')).toThrow(TensorNotFoundError);
  expect(model.info('m.weight')).toEqual({
    shape: [192, 256],
    scheme: 'fp8',
    bits: 8,
    block: [64, 32],
    storedAs: { weight: 'm.weight', scale: 'm.weight_scale' },
    byteLength: 192 * 256 + 96,
  });
});
