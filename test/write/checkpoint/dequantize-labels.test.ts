/** Dequantizing leaves nothing by which a program would take the weights for quantized ones. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { bytesOfFile, type Tensors } from '../../quantized/opened-tensors.js';
import {
  convert,
  dequantized,
  loadFile,
  safeOpen,
  saveCheckpoint,
  select,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

const fixtures = join(root, 'test/fixtures/quantized-comfy');
const fast = { durable: false, overwrite: true };
const dequantize = 'BF16';

it.each(readdirSync(fixtures).filter((id) => /^(?:comfy|kohya)-/.test(id)))(
  '%s: no marker, no scale, no key of the metadata is left',
  async (id) => {
    const source = join(fixtures, id, 'model.safetensors');
    const expected = loadFile(join(fixtures, id, 'expected.safetensors'));
    const target = temporaryPath('plain');
    await convert(source, target, { ...fast, dequantize });
    using plain = safeOpen(target);
    expect(plain.keys()).toEqual([...expected.keys()].sort());
    expect([...(plain.metadata ?? [])]).toEqual([['format', 'pt']]);
    expect((await dequantized(plain)).problems).toEqual([]);
    const model = await dequantized(safeOpen(source));
    for (const name of model.keys()) {
      const isWeight = model.info(name).quantization !== undefined;
      const tensor = (isWeight ? select(model, { dtype: 'BF16' }) : model).getTensor(name);
      expect(plain.getTensor(name).bytes, name).toEqual(tensor.bytes);
    }
  },
);

const text = JSON.stringify({ format: 'int8_tensorwise' });
const TENSORS: Tensors = {
  'm.weight': ['I8', [4, 8]],
  'm.weight_scale': ['F32', [], 'scales'],
  'm.comfy_quant': ['U8', [text.length], { text }],
  scaled_fp8: ['F8_E4M3', [0]],
  norm: ['F32', [2]],
};
const LABELS = {
  _quantization_metadata: JSON.stringify({ layers: { m: { format: 'int8_tensorwise' } } }),
  quantization_config: '{"quant_method":"x"}',
  quantization: 'int8',
  total_parameters: '32',
};

it('metadata of an index and of its shards lose them, too', async () => {
  const [folder, target] = [temporaryPath('source'), temporaryPath('plain')];
  mkdirSync(folder, { recursive: true });
  const names = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
  const { norm, ...others } = TENSORS;
  const own = { ...LABELS, kept: 'x' };
  writeFileSync(join(folder, names[0]), bytesOfFile(others, own));
  writeFileSync(join(folder, names[1]), bytesOfFile({ norm: norm as Tensors[string] }, own));
  const weight_map = Object.fromEntries(
    Object.keys(TENSORS).map((name) => [name, names[name === 'norm' ? 1 : 0]]),
  );
  const index = { metadata: { ...LABELS, quantization: { bits: 4 }, kept: 'x' }, weight_map };
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
  await convert(folder, target, { ...fast, dequantize, maxShardSize: 64 });
  const written = JSON.parse(readFileSync(join(target, 'model.safetensors.index.json'), 'utf8'));
  expect(written.metadata).toEqual({ total_size: 72, kept: 'x' });
  expect(Object.keys(written.weight_map).sort()).toEqual(['m.weight', 'norm']);
  for (const file of new Set<string>(Object.values(written.weight_map))) {
    expect(Object.fromEntries(safeOpen(join(target, file)).metadata ?? [])).toEqual({ kept: 'x' });
  }
});

it('labels go also where nothing is quantized', async () => {
  const [source, target] = [
    temporaryPath('labels.safetensors'),
    temporaryPath('plain.safetensors'),
  ];
  const metadata = { ...LABELS, _quantization_metadata: '{"layers":{}}' };
  writeFileSync(
    source,
    bytesOfFile({ norm: TENSORS['norm'] as Tensors[string], scaled_fp8: ['U8', [0]] }, metadata),
  );
  await convert(source, target, { ...fast, dequantize });
  using plain = safeOpen(target);
  expect([plain.keys(), [...(plain.metadata ?? [])]]).toEqual([['norm'], []]);
});

it('what cannot be dequantized is not written', async () => {
  const target = temporaryPath('plain.safetensors');
  const work = convert(join(fixtures, 'refuse-comfy-nvfp4-convrot/model.safetensors'), target, {
    ...fast,
    dequantize,
  });
  await expect(work).rejects.toThrow('"convrot"');
  const [source, shard] = [temporaryPath('gptq'), temporaryPath('shard.safetensors')];
  await saveCheckpoint(
    source,
    { 'm.scales': { dtype: 'F16', shape: [2, 2], data: new Uint16Array(4) } },
    { durable: false },
  );
  writeFileSync(
    join(source, 'config.json'),
    '{"quantization_config":{"quant_method":"gptq","bits":4}}',
  );
  await expect(convert(source, shard, { ...fast, dequantize })).rejects.toMatchObject({
    code: 'SAFETENSORS_QUANTIZATION_INVALID',
    tensor: 'm.weight',
  });
});
