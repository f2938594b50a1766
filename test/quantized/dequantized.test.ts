/** Where the configuration comes from, and what a dequantized view contains. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dequantized, parse, safeOpen, serialize, TensorNotFoundError } from '../support/api.js';
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
  expect((await dequantized(safeOpen(folder))).quantMethod).toBe(method);
  expect((await dequantized(safeOpen(join(folder, 'model.safetensors')))).quantMethod).toBe(method);
});

it('prefers what it is given', async () => {
  const folder = folderWith({ 'config.json': { quantization_config: { quant_method: 'mxfp8' } } });
  const config = { quantization_config: { quant_method: 'fp8', weight_block_size: [64, 32] } };
  const model = await dequantized(safeOpen(folder), { config });
  const { quantization } = model.info('m.weight');
  expect([model.quantMethod, quantization?.block]).toEqual(['fp8', [64, 32]]);
  expect((await dequantized(safeOpen(folder), { config: null })).quantMethod).toBe(null);
});

it.each([null, { bits: 4 }, []])('takes an object or null: %j', async (config) => {
  const model = dequantized(parse(FP8), { config });
  if (!Array.isArray(config)) await expect(model).resolves.toMatchObject({ size: 1 });
  else await expect(model).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  for (const wrong of ['config.json', '{}', 1, () => config]) {
    const failed = dequantized(parse(FP8), { config: wrong });
    await expect(failed).rejects.toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
  }
});

describe('a configuration that cannot be read', () => {
  const plain = serialize({ a: { dtype: 'F32', shape: [1], data: Float32Array.of(1) } });
  const INVALID = 'SAFETENSORS_QUANTIZATION_INVALID';

  it.each<[what: string, file: string, text: string | number, expected: object]>([
    [
      'cut short',
      'config.json',
      '{"quantization_config":',
      { code: INVALID, message: expect.stringContaining('at configuration byte 23') },
    ],
    ['no object', 'config.json', '[]', { code: INVALID }],
    ['too long', 'config.json', 10_000_001, { code: INVALID }],
    ['of an older tool and cut short', 'quantize_config.json', '{', { code: INVALID }],
    [
      'with a block of no rows',
      'config.json',
      '{"quantization_config":{"quant_method":"fp8","weight_block_size":[0,128]}}',
      { code: INVALID, message: expect.stringContaining('found [0,128]') },
    ],
    ['a folder', 'config.json', -1, { code: 'SAFETENSORS_NOT_A_REGULAR_FILE' }],
  ])('%s is an error with its path: %s', async (_, file, text, expected) => {
    const folder = folderWith({});
    const path = join(folder, file);
    if (text === -1) mkdirSync(path);
    else writeFileSync(path, typeof text === 'string' ? text : ' '.repeat(text));
    for (const source of [safeOpen(folder), safeOpen(join(folder, 'model.safetensors'))]) {
      await expect(dequantized(source)).rejects.toMatchObject({ ...expected, path });
    }
    writeFileSync(join(folder, 'model.safetensors'), plain);
    expect((await dequantized(safeOpen(folder))).keys()).toEqual(['a']);
  });
});

it('reads numbers that Python alone knows', async () => {
  const folder = folderWith({});
  const text = '{"a": -Infinity, "b": NaN, "quantization_config": {"quant_method": "mxfp8"}}';
  writeFileSync(join(folder, 'config.json'), text);
  expect((await dequantized(safeOpen(folder))).quantMethod).toBe('mxfp8');
});

it('has logical names only', async () => {
  const file = parse(FP8);
  const model = await dequantized(file);
  expect([model.size, model.keys()]).toEqual([1, ['m.weight']]);
  expect([model.has('m.weight'), model.has('m.weight_scale')]).toEqual([true, false]);
  expect(() => model.getTensor('m.weight_scale')).toThrow(TensorNotFoundError);
  const info = {
    dtype: 'F32',
    shape: [192, 256],
    dataOffsets: file.info('m.weight').dataOffsets,
    quantization: {
      scheme: 'fp8',
      bits: 8,
      block: [64, 32],
      storedAs: { weight: 'm.weight', scale: 'm.weight_scale' },
      byteLength: 192 * 256 + 96,
    },
  };
  expect(model.info('m.weight')).toEqual(info);
  const byteLength = 4 * 192 * 256;
  expect(await model.tensors()).toEqual([{ name: 'm.weight', file: '', ...info, byteLength }]);
  expect(file.info('m.weight').quantization).toBe(undefined);
});

it('takes no number that only Python knows for a field', async () => {
  const folder = folderWith({});
  for (const number of ['NaN', 'Infinity', '-Infinity']) {
    const section = `{"quant_method": "gptq", "bits": ${number}}`;
    writeFileSync(join(folder, 'config.json'), `{"quantization_config": ${section}}`);
    const [problem] = (await dequantized(safeOpen(folder))).problems;
    expect(problem?.message).toContain(`bits must be a positive integer, found "${number}"`);
  }
});
