/** Markers of ComfyUI decide about the weights of their modules. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Checkpoint, dequantized, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { bytesOfFile, fileOf, open, problemOf, type Tensors } from '../opened-tensors.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);

const int8: Tensors = {
  'm.weight': ['I8', [4, 16]],
  'm.weight_scale': ['F32', [4, 1], 'scales'],
};

function marked(marker: unknown, tensors: Tensors = int8): Tensors {
  const text = typeof marker === 'string' ? marker : JSON.stringify(marker);
  return { ...tensors, 'm.comfy_quant': ['U8', [text.length], { text }] };
}

/** The tensors in a file with such metadata. */
function withMetadata(tensors: Tensors, value: unknown): Promise<Checkpoint> {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return dequantized(fileOf(tensors, { _quantization_metadata: text }));
}

const layers = (own: object): object => ({ format_version: '1.0', layers: own });

it('name the format; the tensors are hidden', async () => {
  const model = await open(marked({ format: 'int8_tensorwise', params: { convrot: false } }));
  expect([model.keys(), model.problems]).toEqual([['m.weight'], []]);
  expect(model.info('m.weight').quantization).toMatchObject({ scheme: 'int8', block: [1, 16] });
});

it.each([
  [{ format: 'int8_tensorwise', convrot: true, convrot_groupsize: 32 }, 'INVALID', '32'],
  [
    { format: 'int8_tensorwise', params: { convrot: true, convrot_groupsize: 64 } },
    'INVALID',
    'a power of 4 that divides 16 columns',
  ],
  [{ format: 'int8_tensorwise', convrot: true }, 'INVALID', '256'],
  [{ format: 'int8_tensorwise', convrot: true, convrot_groupsize: 8 }, 'INVALID', '8'],
  [{ format: 'int8_tensorwise', convrot: 1 }, 'INVALID', '"convrot": 1'],
  [{ format: 'int8_tensorwise', num_experts: 4 }, 'INVALID', 'the first one 4 (num_experts)'],
  [{ format: 'int8_tensorwise', params: [] }, 'UNSUPPORTED', '"params"'],
  [{ format: 'svdquant_w4a4' }, 'UNSUPPORTED', '"svdquant_w4a4"'],
  [{ format: 'float8_e4m3fn' }, 'INVALID', 'found I8'],
  [{ format: 'toString' }, 'UNSUPPORTED', '"toString"'],
  [{ format: 8 }, 'UNSUPPORTED', '8'],
  [{ convrot: true, per_row: true }, 'UNSUPPORTED', 'names no format'],
  ['{"format": ', 'INVALID', '"m.comfy_quant" is not a JSON object'],
  ['["int8_tensorwise"]', 'INVALID', '"m.comfy_quant" is not a JSON object'],
] as const)('%j is rejected: %s', async (marker, code, named) => {
  const problem = await problemOf(marked(marker));
  expect(problem).toMatch(new RegExp(`^${code}: `));
  expect(problem).toContain(named);
});

it('of another dtype, without a weight, or with a plain weight are rejected', async () => {
  const ints: Tensors = { ...int8, 'm.comfy_quant': ['I8', [2]] };
  expect(await problemOf(ints)).toBe('INVALID: expected "m.comfy_quant" to be U8, found I8');
  const marker = { format: 'int8_tensorwise' };
  expect(await problemOf(marked(marker, {}))).toBe(
    'INVALID: "m.comfy_quant": "m.weight" is missing',
  );
  const plain = marked(marker, { 'm.weight': ['BF16', [4, 16]] });
  expect(await problemOf(plain)).toContain('whose weights are I8, found BF16');
  const { 'm.weight_scale': _, ...others } = int8;
  expect(await problemOf(marked(marker, others))).toBe('INVALID: "m.weight_scale" is missing');
});

it('win over shapes, of any keys and formats that are unknown', async () => {
  const known = [
    'format',
    'full_precision_matrix_mult',
    'num_experts',
    'convrot',
    'convrot_groupsize',
    'per_row',
    'params',
  ];
  for (let number = 0; number < 200; number++) {
    const random = new Random(SEED, number);
    const letters = Array.from({ length: random.from(1, 12) }, () =>
      random.pick([...'abcdefgh_48']),
    );
    const word = letters.join('');
    const isKey = random.chance(0.5);
    if (isKey && known.includes(word)) continue;
    const marker = isKey
      ? { format: 'int8_tensorwise', [word]: random.pick([true, 1, 'x', null, {}]) }
      : { format: word };
    const problem = await problemOf(marked(marker));
    expect(problem, `seed ${SEED}, number ${number}`).toMatch(/^UNSUPPORTED: /);
    expect(problem, `seed ${SEED}, number ${number}`).toContain(`"${word}"`);
  }
});

it('are joined with the metadata, and must agree with them', async () => {
  const format = 'int8_tensorwise';
  const one = await withMetadata(marked({ format }), layers({ m: { format, per_row: true } }));
  expect(one.problems).toEqual([]);
  for (const other of [{ format: 'nvfp4' }, { format, convrot: true }]) {
    const model = await withMetadata(marked({ format, convrot: false }), layers({ m: other }));
    const [problem] = model.problems;
    expect(problem).toMatchObject({ code: 'SAFETENSORS_QUANTIZATION_INVALID', tensor: 'm.weight' });
    expect(problem?.message).toContain(
      '"m.comfy_quant" and _quantization_metadata for "m" disagree',
    );
  }
});

it('in the metadata are as good as tensors', async () => {
  const format = 'int8_tensorwise';
  const read = await withMetadata(int8, layers({ m: { format } }));
  expect([read.keys(), read.problems]).toEqual([['m.weight'], []]);
  const rotated = await withMetadata(
    int8,
    layers({ m: { format, convrot: true, convrot_groupsize: 16 } }),
  );
  expect(rotated.info('m.weight').quantization?.scheme).toBe('int8-convrot');
  const prefixed: Tensors = Object.fromEntries(
    Object.entries(int8).map(([name, tensor]) => [`model.diffusion_model.${name}`, tensor]),
  );
  const short = await withMetadata(prefixed, layers({ m: { format: 'nvfp4' } }));
  expect(short.problems.map(({ tensor }) => tensor)).toEqual(['model.diffusion_model.m.weight']);
  const none = await withMetadata(int8, layers({ other: { format } }));
  expect(none.problems[0]?.message).toContain('lists "other"');
  const list = await withMetadata(int8, layers({ m: [] }));
  expect(list.problems[0]?.message).toContain('is not a JSON object');
});

it('in the metadata of a shard count, and leave weights out that they do not list', async () => {
  const f8: Tensors = { ...int8, 'n.weight': ['F8_E4M3', [2, 2]], 'o.weight': ['F8_E4M3', [2, 2]] };
  const model = await withMetadata(
    f8,
    layers({ m: { format: 'int8_tensorwise' }, o: { format: 'float8_e4m3fn' } }),
  );
  expect(model.keys()).toEqual(['m.weight', 'n.weight']);
  expect(model.problems.map(({ message }) => message)).toEqual([
    expect.stringContaining('"o.weight_scale" is missing'),
  ]);
});

it.each([
  ['{', 'INVALID', 'is not a JSON object'],
  ['[]', 'INVALID', 'is not a JSON object'],
  ['{"layers": 1}', 'INVALID', 'is not a JSON object'],
  ['{"format_version": "2.0", "layers": {}}', 'UNSUPPORTED', 'version "2.0"'],
])('metadata that cannot be read are an error: %s', async (text, code, message) => {
  await expect(withMetadata(int8, text)).rejects.toMatchObject({
    code: `SAFETENSORS_QUANTIZATION_${code}`,
    message: expect.stringContaining(message),
  });
});

it.each(['index', 'shard'])('metadata of the %s are read', async (place) => {
  const folder = temporaryPath('sharded');
  mkdirSync(folder, { recursive: true });
  const metadata = {
    _quantization_metadata: JSON.stringify(layers({ m: { format: 'int8_magic' } })),
  };
  const ownOf = (one: string): typeof metadata | undefined =>
    one === place ? metadata : undefined;
  const [first, second] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
  writeFileSync(join(folder, first), bytesOfFile(int8, ownOf('shard')));
  writeFileSync(join(folder, second), bytesOfFile({ norm: ['F32', [2]] }));
  const weight_map = { 'm.weight': first, 'm.weight_scale': first, norm: second };
  const index = JSON.stringify({ metadata: ownOf('index') ?? {}, weight_map });
  writeFileSync(join(folder, 'model.safetensors.index.json'), index);
  const model = await dequantized(safeOpen(folder));
  expect(model.keys()).toEqual(['norm']);
  expect(model.problems[0]?.message).toContain('"int8_magic"');
});

it('of older files leave FP8 without a scale unquantized, below their own module only', async () => {
  const label = (name: string, shape: readonly number[]): Tensors => ({
    'a.m.weight': ['F8_E5M2', [2, 4]],
    'a.m.scale_weight': ['F32', [], 'scales'],
    'a.n.weight': ['F8_E5M2', [2, 4]],
    'b.n.weight': ['F8_E5M2', [2, 4]],
    [name]: ['F8_E5M2', shape],
  });
  for (const shape of [[0], [2], []]) {
    const model = await open(label('a.scaled_fp8', shape));
    expect(model.keys()).toEqual(['a.m.weight', 'a.n.weight']);
    expect(model.info('a.n.weight').quantization).toBe(undefined);
    expect(model.problems.map(({ tensor }) => tensor)).toEqual(['b.n.weight']);
    expect(model.problems[0]?.message).toContain('b.n.scale_weight');
    expect((await open(label('scaled_fp8', shape))).problems).toEqual([]);
  }
  const { 'a.m.scale_weight': _, ...others } = label('scaled_fp8', [0]);
  const input: Tensors = { ...others, 'a.m.scale_input': ['F32', [], 'scales'] };
  expect(await problemOf(input, null, 'a.m.weight')).toBe('INVALID: "a.m.scale_weight" is missing');
});

const nvfp4: Tensors = {
  'm.weight': ['U8', [32, 32]],
  'm.weight_scale': ['F8_E4M3', [128, 4], 'scales'],
  'm.weight_scale_2': ['F32', [], 'scales'],
};
const w4a8: Tensors = {
  'm.weight': ['I8', [4, 32]],
  'm.weight_s_rel': ['F8_E4M3', [4, 4], { below: 0x60 }],
  'm.weight_s_channel': ['F32', [4], 'scales'],
};

it.each([
  ['nvfp4', { 'm.weight_scale': ['F8_E4M3', [32, 4]] }, {}, 'expected [128, 4]'],
  ['nvfp4', { 'm.weight_scale': ['BF16', [128, 4]] }, {}, 'to be F8_E4M3 or U8, found BF16'],
  ['nvfp4', { 'm.weight_scale_2': ['F32', [2]] }, {}, 'expected []'],
  ['nvfp4', { 'm.weight': ['U8', [32, 30]] }, {}, '60 columns are not in groups of 16'],
  ['nvfp4', { 'm.weight': ['U8', [4, 8, 32]] }, {}, 'expected a weight of two dimensions'],
  ['nvfp4', { 'm.weight': ['U8', [32]] }, {}, 'expected a weight of two dimensions'],
  ['nvfp4', {}, { group_size: 32 }, 'has "group_size": 32, expected 16'],
  [
    'nvfp4',
    {},
    { orig_shape: [16, 64] },
    'which padding to multiples of 16 does not make [32, 64]',
  ],
  ['nvfp4', {}, { orig_shape: [32, 65] }, 'which padding'],
  ['nvfp4', {}, { orig_shape: [32] }, 'which padding'],
  ['nvfp4', {}, { orig_shape: [31.5, 64] }, 'which padding'],
  ['nvfp4', {}, { orig_shape: 'x' }, 'which padding'],
  ['nvfp4', { 'm.pre_quant_scale': ['F32', [32]] }, {}, 'expected [64]'],
  ['nvfp4', {}, { num_experts: 2 }, 'three dimensions, the first one 2 (num_experts)'],
  ['nvfp4', {}, { layout: 'x' }, '"layout": "x"'],
  ['asym_w4a8_int8', {}, {}, 'expected a power of 4 that divides 64 columns'],
  ['asym_w4a8_int8', {}, { convrot_groupsize: 64, group_size: 24 }, 'has "group_size": 24'],
  ['asym_w4a8_int8', {}, { convrot_groupsize: 64, group_size: 1 }, 'has "group_size": 1'],
  ['asym_w4a8_int8', {}, { convrot_groupsize: 64, group_size: 32 }, 'expected [4, 2]'],
  [
    'asym_w4a8_int8',
    { 'm.weight_codebook': ['F32', [4, 16]] },
    { convrot_groupsize: 64 },
    'expected [16]',
  ],
  [
    'asym_w4a8_int8',
    { 'm.weight_correction': ['F32', [4, 4]] },
    { convrot_groupsize: 64 },
    '"m.weight_correction"',
  ],
  [
    'asym_w4a8_int8',
    { 'm.weight_s_channel': ['F32', [4, 1]] },
    { convrot_groupsize: 64 },
    'expected [4]',
  ],
] as const)('%s with %j and %j is rejected', async (format, tensors, keys, message) => {
  const whole: Tensors = { ...(format === 'nvfp4' ? nvfp4 : w4a8), ...(tensors as Tensors) };
  expect(await problemOf(marked({ format, ...keys }, whole))).toContain(message);
});

it.each([
  [
    'scale',
    { 'm.weight_s_rel': ['F32', [4, 4], [3, Number.POSITIVE_INFINITY]] },
    '"m.weight_s_rel" is Infinity at [0, 1]',
  ],
  [
    'row',
    { 'm.weight_s_channel': ['F32', [4], [3, Number.NaN]] },
    '"m.weight_s_channel" is NaN at [1, 0]',
  ],
  [
    'code book',
    { 'm.weight_codebook': ['F32', [16], [Number.NEGATIVE_INFINITY]] },
    '"m.weight_codebook" is -Infinity',
  ],
] as const)('rotated weights need a finite %s', async (_, tensors, message) => {
  const marker = { format: 'asym_w4a8_int8', convrot_groupsize: 64 };
  const whole: Tensors = { ...w4a8, ...(tensors as unknown as Tensors) };
  const model = await open(marked(marker, whole));
  expect(model.problems).toEqual([]);
  expect(() => model.getTensor('m.weight').toFloat32()).toThrow(message);
});
