/** Weights whose own shape does not show how they are stored, or what an adapter scales. */
import { describe, expect, it } from 'vitest';
import { merged, peft, type Tensors, type Values, valuesOf } from './make-adapter.js';

const SQUARE = valuesOf([2, 2], [0, 0, 0, 0]);
const PROJECTION = {
  'h.attn.c_attn.weight': valuesOf([2, 3], [0, 0, 0, 0, 0, 0]),
  'h.attn.c_attn.bias': valuesOf([3], [0, 0, 0]),
};
const SCORE = valuesOf([3, 2], [0, 0, 0, 0, 0, 0]);

/** B · A is [[1, 2], [3, 6]]. */
const factors = (module: string): Tensors => ({
  [`${module}.lora_A.weight`]: valuesOf([1, 2], [1, 2]),
  [`${module}.lora_B.weight`]: valuesOf([2, 1], [1, 3]),
});

/** Factors of a linear layer whose shape shows that it is stored as `[out, in]`. */
const SCORE_FACTORS = {
  'score.lora_A.weight': valuesOf([1, 2], [1, 1]),
  'score.lora_B.weight': valuesOf([3, 1], [1, 1, 1]),
};

const ONE = { r: 1, lora_alpha: 1 };

async function valuesIn(
  base: Tensors,
  tensors: Tensors,
  config: object,
  name: string,
): Promise<number[]> {
  const model = await merged(base, peft(tensors, { ...ONE, ...config }));
  return [...model.getTensor(name).toFloat32()];
}

describe('a square weight', () => {
  it.each([true, false])(
    'of GPT-2 is stored as [in, out], next to a linear layer and with fan_in_fan_out %s',
    async (fan_in_fan_out) => {
      const base = { ...PROJECTION, 'h.attn.c_proj.weight': SQUARE, 'score.weight': SCORE };
      const tensors = { ...factors('h.attn.c_proj'), ...SCORE_FACTORS };
      const name = 'h.attn.c_proj.weight';
      expect(await valuesIn(base, tensors, { fan_in_fan_out }, name)).toEqual([1, 3, 2, 6]);
    },
  );

  it.each([true, false])(
    'of a linear layer is stored as [out, in], next to those of GPT-2 and with fan_in_fan_out %s',
    async (fan_in_fan_out) => {
      const base = { ...PROJECTION, 'score.weight': SQUARE };
      const tensors = {
        ...factors('score'),
        'h.attn.c_attn.lora_A.weight': valuesOf([1, 2], [1, 1]),
        'h.attn.c_attn.lora_B.weight': valuesOf([3, 1], [1, 1, 1]),
      };
      expect(await valuesIn(base, tensors, { fan_in_fan_out }, 'score.weight')).toEqual([
        1, 2, 3, 6,
      ]);
    },
  );

  it('named as in GPT-2 is stored as [out, in] where biases show that its neighbours are', async () => {
    const base = {
      'h.c_attn.weight': SCORE,
      'h.c_attn.bias': valuesOf([3], [0, 0, 0]),
      'h.c_proj.weight': SQUARE,
    };
    const config = { fan_in_fan_out: true };
    const found = await valuesIn(base, factors('h.c_proj'), config, 'h.c_proj.weight');
    expect(found).toEqual([1, 2, 3, 6]);
  });

  it('of GPT-2 has its outputs in columns for IA3', async () => {
    const ones = valuesOf([2, 2], [1, 1, 1, 1]);
    const base = { ...PROJECTION, 'h.attn.c_proj.weight': ones };
    const tensors = { 'h.attn.c_proj.ia3_l': valuesOf([2, 1], [2, 3]) };
    const config = { peft_type: 'IA3', feedforward_modules: [], fan_in_fan_out: false };
    const name = 'h.attn.c_proj.weight';
    expect(await valuesIn(base, tensors, config, name)).toEqual([2, 3, 2, 3]);
  });
});

describe('IA3 on a square convolution', () => {
  const ones = valuesOf([2, 2, 1, 1], [1, 1, 1, 1]);
  const base = { 'x.weight': ones, 'x.bias': valuesOf([2], [1, 1]) };
  const tensors = { 'x.ia3_l': valuesOf([1, 2, 1, 1], [2, 3]) };

  it.each<[unknown, readonly number[], readonly number[]]>([
    [['x'], [2, 3, 2, 3], [1, 1]],
    [[], [2, 2, 3, 3], [2, 3]],
    ['.*x', [2, 3, 2, 3], [1, 1]],
    ['y|x.*z', [2, 2, 3, 3], [2, 3]],
  ])('scales what feedforward_modules %j lists', async (names, weight, bias) => {
    const config = { peft_type: 'IA3', feedforward_modules: names, fan_in_fan_out: true };
    const model = await merged(base, peft(tensors, config));
    expect([...model.getTensor('x.weight').toFloat32()]).toEqual(weight);
    expect([...model.getTensor('x.bias').toFloat32()]).toEqual(bias);
  });

  it('is an error without a list', async () => {
    await expect(merged(base, peft(tensors, { peft_type: 'IA3' }))).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_ADAPTER',
      message: expect.stringContaining('the configuration has no feedforward_modules'),
    });
  });

  it('that is not square has inputs in its second dimension', async () => {
    const wide = { 'x.weight': valuesOf([1, 2, 1, 1], [1, 1]) };
    const model = await merged(wide, peft(tensors, { peft_type: 'IA3' }));
    expect([...model.getTensor('x.weight').toFloat32()]).toEqual([2, 3]);
  });
});

it('a LoKr of PEFT for Conv1d is a product with leading dimensions, in the shape of the weight', async () => {
  const [a, b, c, d, k] = [2, 3, 2, 2, 3];
  const numbered = (...shape: number[]): Values => {
    const length = shape.reduce((product, size) => product * size, 1);
    return valuesOf(
      shape,
      Array.from({ length }, (_, i) => i + 1),
    );
  };
  const [w1, w2] = [numbered(a, b), numbered(c, d, k)];
  const expected: number[] = [];
  for (let i = 0; i < c; i++) {
    for (let row = 0; row < a * d; row++) {
      for (let column = 0; column < b * k; column++) {
        const left = w1.values[Math.floor(row / d) * b + Math.floor(column / k)] as number;
        const right = w2.values[(i * d + (row % d)) * k + (column % k)] as number;
        expected.push(2 * left * right);
      }
    }
  }
  const base = { 'x.weight': valuesOf([a * c, b * d, k], Array(expected.length).fill(0)) };
  const config = { peft_type: 'LOKR', r: 1, alpha: 2 };
  const model = await merged(base, peft({ 'x.lokr_w1': w1, 'x.lokr_w2': w2 }, config));
  expect([...model.getTensor('x.weight').toFloat32()]).toEqual(expected);
  expect([...model.getSlice('x.weight', 1).toFloat32()]).toEqual(
    expected.slice(b * d * k, 2 * b * d * k),
  );
});
