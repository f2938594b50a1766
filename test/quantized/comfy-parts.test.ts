/** Parts of ComfyUI's weights that are missing or malformed: never a wrong value, and an error that names the part. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Checkpoint, dequantized, parse, safeOpen, serialize } from '../support/api.js';
import { Random } from '../support/random.js';
import { root } from '../support/source-tree.js';
import { COMFY_MAKERS, type ComfyWeight, comfyFile } from './generated-comfy.js';
import { type MadeTensor, storedTensors } from './generated-tensors.js';
import { patternsOf } from './rules.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261129);
const COUNT = 12;

/** Parts without which a checkpoint is another valid one: activations, other tensors, and what a file may lack. */
const OPTIONAL =
  /bias|input_scale|scale_input|pre_quant_scale|norm|config$|(?:head|raw|shared|blocks\.2.*)\.weight$/;

const LABEL = /(?:^|\.)(?:comfy_quant|scaled_fp8)$/;

const DTYPES = ['F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'U8', 'I8', 'F32', 'BF16', 'F16', 'I32'] as const;
const SIZES = [0, 1, 2, 3, 4, 16, 31, 32, 64, 127, 128, 129, 256];
const KEYS = ['group_size', 'convrot', 'convrot_groupsize', 'num_experts', 'orig_shape', 'format'];
const VALUES = [0, 1, -1, 2, 4, 16, 64, 2 ** 32, 0.5, true, null, 'nvfp4', [], [1], [16, 32], {}];

/** Changes a shape, a dtype or the marker. */
function changed(made: ComfyWeight, random: Random): ComfyWeight {
  const [name, tensor] = random.pick(Object.entries(made.tensors)) as [string, MadeTensor];
  const { shape } = tensor;
  const at = random.below(shape.length);
  const withTensor = (more: Partial<MadeTensor>): ComfyWeight => ({
    ...made,
    tensors: { ...made.tensors, [name]: { ...tensor, ...more } },
  });
  return random.do(
    () => withTensor({ dtype: random.pick(DTYPES) }),
    () => withTensor({ shape: shape.map((size, i) => (i === at ? random.pick(SIZES) : size)) }),
    () => withTensor({ shape: random.chance(0.5) ? shape.slice(1) : [...shape, 1] }),
    () => ({ ...made, keys: { ...made.keys, [random.pick(KEYS)]: random.pick(VALUES) } }),
  );
}

/** The same checkpoint without a tensor. */
function without(file: Checkpoint, gone: string): Checkpoint {
  const others = file.keys().filter((name) => name !== gone);
  const tensors = others.map((name) => {
    const { dtype, shape, bytes } = file.getTensor(name);
    return [name, { dtype, shape, data: bytes }] as const;
  });
  return parse(serialize(new Map(tensors), { metadata: file.metadata }));
}

/** Expects values of the whole checkpoint, or an error that names the tensor. Returns whether there was one. */
async function expectNamed(file: Checkpoint, gone: string, about: string): Promise<boolean> {
  const whole = await dequantized(file);
  const model = await dequantized(without(file, gone));
  const messages = model.problems.map(({ message }) => message);
  for (const name of model.keys()) {
    expect(whole.has(name), `${about}: ${name}`).toBe(true);
    try {
      const values = patternsOf(model.getTensor(name).toFloat32());
      expect(values, about).toEqual(patternsOf(whole.getTensor(name).toFloat32()));
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error)) throw error;
      messages.push(error.message);
    }
  }
  expect(messages.length, about).toBeLessThan(2);
  // The label of a whole model is not missed by name; nor the marker of a layer whose shapes show that it is broken.
  const named = LABEL.test(gone) ? '' : gone.replace(/\.?weight$/, '');
  for (const message of messages) expect(message, about).toContain(named);
  return messages.length > 0;
}

const folder = join(root, 'test/fixtures/quantized-comfy');
const ids = readdirSync(folder).filter((id) => /^(?:comfy|kohya)-/.test(id));

describe.each(ids)('%s', (id) => {
  it('without a part has no wrong value', async () => {
    const file = safeOpen(join(folder, id));
    for (const gone of file.keys()) {
      // FP8 below the older label is unquantized where it has no scale.
      if (OPTIONAL.test(gone) || gone === 'encoder.block.0.v.scale_weight') continue;
      const isNamed = await expectNamed(file, gone, gone);
      // The values of FP8 are the same.
      if (id !== 'comfy-fp8-marker' || !LABEL.test(gone)) {
        expect([gone, isNamed]).toEqual([gone, true]);
      }
    }
  });
});

it.each(Object.entries(COMFY_MAKERS))('%s: no part may be missing', async (kind, make) => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const made = make(random);
    const about = `seed ${SEED}, number ${number}: ${JSON.stringify(made)}`;
    const file = parse(comfyFile(made, storedTensors(made, number)));
    for (const gone of file.keys()) {
      // A single FP8 tensor without any scale is not quantized, and random scales are possible without a code book.
      const isPlain = kind === 'kohya' && gone.endsWith('scale_weight');
      if (OPTIONAL.test(gone) || isPlain || gone.endsWith('codebook')) continue;
      await expectNamed(file, gone, `${gone} of ${about}`);
    }
  }
});

it.each(Object.entries(COMFY_MAKERS))(
  '%s: other shapes, dtypes and markers fail in order',
  async (_, make) => {
    for (let number = 0; number < 20 * COUNT; number++) {
      const random = new Random(SEED, number);
      const made = changed(make(random), random);
      const about = `seed ${SEED}, number ${number}: ${JSON.stringify(made)}`;
      const file = parse(comfyFile(made, storedTensors(made, number)));
      const model = await dequantized(file);
      for (const problem of model.problems) expect(problem.name, about).toBe('QuantizationError');
      for (const name of model.keys()) {
        const tensor = model.getTensor(name);
        try {
          expect(tensor.toFloat32().length, about).toBe(tensor.elementCount);
        } catch (error) {
          expect(error, about).toMatchObject({ name: 'QuantizationError', tensor: name });
        }
      }
    }
  },
);
