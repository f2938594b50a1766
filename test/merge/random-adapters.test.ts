/** Random adapters of every kind against the formula of its original, in float64 and without any shortcut. */
import { describe, expect, it } from 'vitest';
import { type AdapterInput, mergeAdapters, type Source } from '../support/api.js';
import { Random } from '../support/random.js';
import {
  changed,
  checkpoint,
  expectValues,
  peft,
  product,
  random,
  type Tensors,
  type Values,
  valuesOf,
} from './make-adapter.js';

const COUNT = 200;
const EPSILON = 2 ** -23;

interface Case {
  readonly base: Tensors;
  readonly adapter: AdapterInput<Source>;
  /** Adapters after the first. */
  readonly others?: readonly AdapterInput<Source>[];
  readonly expected: Readonly<Record<string, readonly number[]>>;
}

/** Norms of rows, or of groups of columns. */
function norms(values: readonly number[], group: (i: number) => number, count: number): number[] {
  const sums = new Array<number>(count).fill(0);
  for (const [i, value] of values.entries())
    sums[group(i)] = (sums[group(i)] as number) + value ** 2;
  return sums.map(Math.sqrt);
}

/** Element [p, q, k] of a change. */
type Element = (p: number, q: number, k: number) => number;

/** The sum of `core[i, j, k] · a[i, p] · b[j, q]` over i and j. */
function tucker(core: Values, a: Values, b: Values): Element {
  const [ranks = 1, others = 1, kernel = 1] = core.shape;
  const [rows, columns] = [a.values.length / ranks, b.values.length / others];
  return (p, q, k) => {
    let sum = 0;
    for (let i = 0; i < ranks; i++) {
      for (let j = 0; j < others; j++) {
        const factor = core.values[(i * others + j) * kernel + k] as number;
        sum += factor * (a.values[i * rows + p] as number) * (b.values[j * columns + q] as number);
      }
    }
    return sum;
  };
}

function transposedOf({ shape: [rows = 1, columns = 1], values }: Values): Values {
  const result = Float32Array.from(values, (_, at) => {
    return values[(at % rows) * columns + Math.floor(at / rows)] as number;
  });
  return { shape: [columns, rows], values: result };
}

const KINDS: Readonly<Record<string, (r: Random) => Case>> = {
  lora: (r) => {
    const [out, inner, rank, alpha] = [r.from(1, 20), r.from(1, 20), r.from(1, 9), r.from(1, 9)];
    const [w, a, b] = [random(r, out, inner), random(r, rank, inner), random(r, out, rank)];
    const isStable = r.chance(0.5);
    const scale = (0.5 * alpha) / (isStable ? Math.sqrt(rank) : rank);
    const ba = product(b, a);
    return {
      base: { 'x.weight': w },
      adapter: {
        ...peft(
          { 'x.lora_A.weight': a, 'x.lora_B.weight': b },
          { r: rank, lora_alpha: alpha, use_rslora: isStable },
        ),
        scale: 0.5,
      },
      expected: { 'x.weight': changed(w, (value, i, j) => value + scale * ba(i, j)) },
    };
  },

  'transposed lora': (r) => {
    const [out, inner, rank] = [r.from(1, 20), r.from(1, 20), r.from(1, 9)];
    const [w, a, b] = [random(r, inner, out), random(r, rank, inner), random(r, out, rank)];
    const ba = product(b, a);
    const expected = changed(w, (value, i, j) => value + (4 / rank) * ba(j, i));
    const tensors = { 'x.lora_A.weight': a, 'x.lora_B.weight': b };
    const adapter = peft(tensors, { r: rank, fan_in_fan_out: true });
    return { base: { 'x.weight': w }, adapter, expected: { 'x.weight': expected } };
  },

  embedding: (r) => {
    const [count, width, rank] = [r.from(1, 20), r.from(1, 20), r.from(1, 5)];
    const [w, a, b] = [random(r, count, width), random(r, rank, count), random(r, width, rank)];
    const ba = product(b, a);
    const expected = changed(w, (value, i, j) => value + (4 / rank) * ba(j, i));
    const tensors = { 'x.lora_embedding_A': a, 'x.lora_embedding_B': b };
    return {
      base: { 'x.weight': w },
      adapter: peft(tensors, { r: rank }),
      expected: { 'x.weight': expected },
    };
  },

  'convolution of kohya': (r) => {
    const [out, inner, rank, kernel] = [r.from(1, 8), r.from(1, 8), r.from(1, 5), r.from(1, 3)];
    const w = random(r, out, inner, kernel, kernel);
    const [down, up] = [random(r, rank, inner, kernel, kernel), random(r, out, rank, 1, 1)];
    const ba = product(up, down);
    const expected = changed(w, (value, i, j) => value + 0.7 * (3 / rank) * ba(i, j));
    const tensors = {
      'lora_unet_x_y.lora_down.weight': down,
      'lora_unet_x_y.lora_up.weight': up,
      'lora_unet_x_y.alpha': valuesOf([], [3]),
    };
    return {
      base: { 'x.y.weight': w },
      adapter: { source: checkpoint(tensors), scale: 0.7 },
      expected: { 'x.y.weight': expected },
    };
  },

  locon: (r) => {
    const [out, inner, rank, kernel] = [r.from(1, 8), r.from(1, 8), r.from(1, 5), r.from(1, 3)];
    const w = random(r, out, inner, kernel);
    const [down, up] = [random(r, rank, inner, 1), random(r, out, rank, 1)];
    const mid = random(r, rank, rank, kernel);
    const expected = changed(w, (value, p, column) => {
      const [q, k] = [Math.floor(column / kernel), column % kernel];
      let sum = 0;
      for (let i = 0; i < rank; i++) {
        for (let j = 0; j < rank; j++) {
          sum +=
            (mid.values[(i * rank + j) * kernel + k] as number) *
            (up.values[p * rank + i] as number) *
            (down.values[j * inner + q] as number);
        }
      }
      return value + sum;
    });
    const tensors = {
      'lora_unet_x.lora_down.weight': down,
      'lora_unet_x.lora_up.weight': up,
      'lora_unet_x.lora_mid.weight': mid,
    };
    return {
      base: { 'x.weight': w },
      adapter: { source: checkpoint(tensors) },
      expected: { 'x.weight': expected },
    };
  },

  'dora by rows': (r) => {
    const [out, inner, rank] = [r.from(1, 20), r.from(1, 20), r.from(1, 5)];
    const [w, a, b] = [random(r, out, inner), random(r, rank, inner), random(r, out, rank)];
    const m = random(r, out);
    const ba = product(b, a);
    const v = changed(w, (value, i, j) => value + (4 / rank) * ba(i, j));
    const n = norms(v, (i) => Math.floor(i / inner), out);
    const tensors = {
      'x.lora_A.weight': a,
      'x.lora_B.weight': b,
      'x.lora_magnitude_vector': m,
    };
    return {
      base: { 'x.weight': w },
      adapter: peft(tensors, { r: rank, use_dora: true }),
      expected: {
        'x.weight': v.map((value, i) => {
          const row = Math.floor(i / inner);
          return ((m.values[row] as number) / (n[row] as number)) * value;
        }),
      },
    };
  },

  'dora by columns': (r) => {
    const [count, width, rank] = [r.from(2, 20), r.from(1, 20), r.from(1, 5)];
    const [w, a, b] = [random(r, count, width), random(r, rank, count), random(r, width, rank)];
    const m = random(r, width);
    const ba = product(b, a);
    const v = changed(w, (value, i, j) => value + (4 / rank) * ba(j, i));
    const n = norms(v, (i) => i % width, width);
    const isEmbedding = r.chance(0.5);
    const [down, up] = isEmbedding
      ? ['lora_embedding_A', 'lora_embedding_B']
      : ['lora_A.weight', 'lora_B.weight'];
    const tensors = { [`x.${down}`]: a, [`x.${up}`]: b, 'x.lora_magnitude_vector.weight': m };
    return {
      base: { 'x.weight': w },
      adapter: peft(tensors, { r: rank, use_dora: true, fan_in_fan_out: true }),
      expected: {
        'x.weight': v.map(
          (value, i) => ((m.values[i % width] as number) / (n[i % width] as number)) * value,
        ),
      },
    };
  },

  'dora of lycoris': (r) => {
    const [out, inner, rank, kernel] = [r.from(2, 8), r.from(2, 8), r.from(1, 5), r.from(1, 3)];
    const w = random(r, out, inner, kernel);
    const [down, up] = [random(r, rank, inner, kernel), random(r, out, rank, 1)];
    const ofRows = r.chance(0.5);
    const m = ofRows ? random(r, out, 1, 1) : random(r, 1, inner, 1);
    const ba = product(up, down);
    const v = changed(w, (value, i, j) => value + ba(i, j));
    const columns = inner * kernel;
    const group = (i: number): number =>
      ofRows ? Math.floor(i / columns) : Math.floor((i % columns) / kernel);
    const n = norms(v, group, ofRows ? out : inner);
    const strength = r.pick([1, 0.6]);
    const tensors = {
      'lora_unet_x.lora_down.weight': down,
      'lora_unet_x.lora_up.weight': up,
      'lora_unet_x.dora_scale': m,
    };
    return {
      base: { 'x.weight': w },
      adapter: { source: checkpoint(tensors), scale: strength },
      expected: {
        'x.weight': v.map((value, i) => {
          const norm = (n[group(i)] as number) + EPSILON;
          const factor = (m.values[group(i)] as number) / norm;
          return value * (strength * (factor - 1) + 1);
        }),
      },
    };
  },

  loha: (r) => {
    const [out, inner, rank] = [r.from(1, 20), r.from(1, 20), r.from(1, 5)];
    const [w, a1, a2] = [random(r, out, inner), random(r, out, rank), random(r, out, rank)];
    const [b1, b2] = [random(r, rank, inner), random(r, rank, inner)];
    const [one, other] = [product(a1, b1), product(a2, b2)];
    const scale = (3 / rank) * 0.5;
    const parts = { hada_w1_a: a1, hada_w1_b: b1, hada_w2_a: a2, hada_w2_b: b2 };
    const named = (prefix: string): Tensors =>
      Object.fromEntries(Object.entries(parts).map(([name, part]) => [prefix + name, part]));
    const adapter = r.chance(0.5)
      ? peft(named('x.'), { peft_type: 'LOHA', r: rank, alpha: 3 })
      : {
          source: checkpoint({
            ...named('lycoris_x.'),
            'lycoris_x.alpha': valuesOf([], [3]),
          }),
        };
    const expected = changed(w, (value, i, j) => value + scale * one(i, j) * other(i, j));
    return {
      base: { 'x.weight': w },
      adapter: { ...adapter, scale: 0.5 },
      expected: { 'x.weight': expected },
    };
  },

  lokr: (r) => {
    const [a, b, c, d, kernel] = [1, 2, 3, 4, 5].map(() => r.from(1, 4)) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const rank = r.from(1, 3);
    const isWhole = r.chance(0.5);
    const isPeft = r.chance(0.5);
    const kernels = isPeft && r.chance(0.5) ? [kernel, 1] : [kernel];
    const w = random(r, a * c, b * d, ...kernels);
    const [left, right] = [random(r, a, b), random(r, c, d, ...kernels)];
    const [ofA, ofB] = [random(r, c, rank), random(r, rank, d * kernel)];
    const factored = product(ofA, ofB);
    // PEFT gives the first matrix a dimension in front where the second one is that of Conv1d.
    const isReshaped = isPeft && isWhole && kernels.length === 1;
    const expected = changed(w, (value, i, column) => {
      const at = i * b * d * kernel + column;
      const reshaped = [Math.floor(at / (b * kernel)), at % (b * kernel)] as const;
      const [j, k] = [Math.floor(column / kernel), column % kernel];
      const [above, before, row, inRow] = isReshaped
        ? [
            Math.floor((reshaped[0] % (a * d)) / d),
            Math.floor(reshaped[1] / kernel),
            Math.floor(reshaped[0] / (a * d)),
            (reshaped[0] % d) * kernel + (reshaped[1] % kernel),
          ]
        : [Math.floor(i / c), Math.floor(j / d), i % c, (j % d) * kernel + k];
      const first = left.values[above * b + before] as number;
      const second = isWhole
        ? (right.values[row * d * kernel + inRow] as number)
        : factored(row, inRow);
      // LyCORIS does not scale two whole matrices.
      const scale = isWhole && !isPeft ? 1 : 5 / rank;
      return value + scale * first * second;
    });
    const parts: Tensors = isWhole
      ? { lokr_w1: left, lokr_w2: right }
      : { lokr_w1: left, lokr_w2_a: ofA, lokr_w2_b: ofB };
    const named = (prefix: string): Tensors =>
      Object.fromEntries(Object.entries(parts).map(([name, part]) => [prefix + name, part]));
    const adapter = isPeft
      ? peft(named('x.'), { peft_type: 'LOKR', r: rank, alpha: 5 })
      : {
          source: checkpoint({ ...named('lora_unet_x.'), 'lora_unet_x.alpha': valuesOf([1], [5]) }),
        };
    return { base: { 'x.weight': w }, adapter, expected: { 'x.weight': expected } };
  },

  'loha with cores': (r) => {
    const [out, inner, rank, kernel] = [r.from(1, 6), r.from(1, 6), r.from(1, 4), r.from(1, 3)];
    const w = random(r, out, inner, kernel);
    const parts: Record<string, Values> = {};
    const products = ['1', '2'].map((i) => {
      const [a, b] = [random(r, rank, out), random(r, rank, inner)];
      const core = random(r, rank, rank, kernel);
      Object.assign(parts, { [`hada_w${i}_a`]: a, [`hada_w${i}_b`]: b, [`hada_t${i}`]: core });
      return tucker(core, a, b);
    }) as [Element, Element];
    const named = Object.entries(parts).map(([name, part]) => [`lycoris_x.${name}`, part]);
    const tensors = { ...Object.fromEntries(named), 'lycoris_x.alpha': valuesOf([], [3]) };
    const expected = changed(w, (value, p, column) => {
      const [q, k] = [Math.floor(column / kernel), column % kernel];
      return value + (3 / rank) * products[0](p, q, k) * products[1](p, q, k);
    });
    return {
      base: { 'x.weight': w },
      adapter: { source: checkpoint(tensors) },
      expected: { 'x.weight': expected },
    };
  },

  'lokr with a core': (r) => {
    const [a, b, c, d, kernel] = [1, 2, 3, 4, 5].map(() => r.from(1, 4)) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const rank = r.from(1, 3);
    const w = random(r, a * c, b * d, kernel);
    const [left, ofA, ofB] = [random(r, a, b), random(r, rank, c), random(r, rank, d)];
    const core = random(r, rank, rank, kernel);
    const right = tucker(core, ofA, ofB);
    const tensors = {
      'lora_unet_x.lokr_w1': left,
      'lora_unet_x.lokr_w2_a': ofA,
      'lora_unet_x.lokr_w2_b': ofB,
      'lora_unet_x.lokr_t2': core,
      'lora_unet_x.alpha': valuesOf([], [2]),
    };
    const expected = changed(w, (value, i, column) => {
      const [j, k] = [Math.floor(column / kernel), column % kernel];
      const first = left.values[Math.floor(i / c) * b + Math.floor(j / d)] as number;
      return value + (2 / rank) * first * right(i % c, j % d, k);
    });
    return {
      base: { 'x.weight': w },
      adapter: { source: checkpoint(tensors) },
      expected: { 'x.weight': expected },
    };
  },

  'whole differences': (r) => {
    const [out, inner, kernel] = [r.from(1, 20), r.from(1, 20), r.from(1, 3)];
    const [w, diff] = [random(r, out, inner, kernel), random(r, out, inner, kernel)];
    const [bias, diffBias, norm, diffNorm] = [1, 2, 3, 4].map(() => random(r, out)) as [
      Values,
      Values,
      Values,
      Values,
    ];
    const strength = r.pick([1, 0.3]);
    const tensors = {
      'lycoris_x.diff': diff,
      'lycoris_x.diff_b': diffBias,
      'lycoris_n.w_norm': diffNorm,
      'lycoris_n.b_norm': diffBias,
    };
    const sum = (one: Values, other: Values): number[] =>
      Array.from(one.values, (value, i) => value + strength * (other.values[i] as number));
    return {
      base: { 'x.weight': w, 'x.bias': bias, 'n.weight': norm, 'n.bias': bias },
      adapter: { source: checkpoint(tensors), scale: strength },
      expected: {
        'x.weight': sum(w, diff),
        'x.bias': sum(bias, diffBias),
        'n.weight': sum(norm, diffNorm),
        'n.bias': sum(bias, diffBias),
      },
    };
  },

  'several adapters': (r) => {
    const [out, inner, rank] = [r.from(1, 20), r.from(1, 20), r.from(1, 6)];
    const w = random(r, out, inner, 2);
    const added: Element[] = [];
    const adapters = [1, 2, 3].map((number): AdapterInput<Source> => {
      const [up, down] = [random(r, out, rank, 1), random(r, rank, inner, 1)];
      const mid = random(r, rank, rank, 2);
      const scale = r.pick([1, 0.3, -2]);
      const product = tucker(mid, transposedOf(up), down);
      added.push((p, q, k) => scale * product(p, q, k));
      return {
        source: checkpoint(
          {
            'lora_unet_x.lora_up.weight': up,
            'lora_unet_x.lora_down.weight': down,
            'lora_unet_x.lora_mid.weight': mid,
            'lora_unet_x.alpha': valuesOf([], [rank]),
          },
          'F32',
          { number: String(number) },
        ),
        scale,
      };
    });
    const [adapter, ...others] = adapters as [AdapterInput<Source>, ...AdapterInput<Source>[]];
    const expected = changed(w, (value, p, column) => {
      const [q, k] = [Math.floor(column / 2), column % 2];
      return added.reduce((sum, of) => sum + of(p, q, k), value);
    });
    return { base: { 'x.weight': w }, adapter, others, expected: { 'x.weight': expected } };
  },

  ia3: (r) => {
    const [out, inner] = [r.from(2, 20), r.from(2, 20)];
    const [w, bias] = [random(r, out, inner), random(r, out)];
    const ofInput = r.chance(0.5);
    const l = ofInput ? random(r, 1, inner) : random(r, out, 1);
    const strength = r.pick([1, 0.5]);
    const factor = (i: number): number => 1 + strength * ((l.values[i] as number) - 1);
    return {
      base: { 'x.weight': w, 'x.bias': bias },
      adapter: {
        ...peft({ 'x.ia3_l': l }, { peft_type: 'IA3', feedforward_modules: ofInput ? ['x'] : [] }),
        scale: strength,
      },
      expected: {
        'x.weight': changed(w, (value, i, j) => value * factor(ofInput ? j : i)),
        'x.bias': Array.from(bias.values, (value, i) => value * (ofInput ? 1 : factor(i))),
      },
    };
  },

  'ia3 of lycoris': (r) => {
    const [out, inner] = [r.from(1, 20), r.from(1, 20)];
    const w = random(r, out, inner);
    const ofInput = r.chance(0.5);
    const l = random(r, ofInput ? inner : out);
    const tensors = {
      'lora_unet_x.weight': l,
      'lora_unet_x.on_input': valuesOf([], [ofInput ? 1 : 0]),
    };
    const expected = changed(
      w,
      (value, i, j) => value * (1 + 0.3 * (l.values[ofInput ? j : i] as number)),
    );
    return {
      base: { 'x.weight': w },
      adapter: { source: checkpoint(tensors), scale: 0.3 },
      expected: { 'x.weight': expected },
    };
  },

  'experts of a parameter': (r) => {
    const [experts, out, rank] = [r.from(1, 4), r.from(1, 8), r.from(1, 3)];
    const inner = out + r.from(1, 8);
    const isTransposed = r.chance(0.5);
    const w = isTransposed ? random(r, experts, inner, out) : random(r, experts, out, inner);
    const [a, b] = [random(r, rank * experts, inner), random(r, out, rank * experts)];
    const expected = Array.from(w.values, (value, index) => {
      const expert = Math.floor(index / (out * inner));
      const at = index % (out * inner);
      const [i, j] = isTransposed
        ? [at % out, Math.floor(at / out)]
        : [Math.floor(at / inner), at % inner];
      let sum = 0;
      for (let k = 0; k < rank; k++) {
        sum +=
          (b.values[i * rank * experts + k * experts + expert] as number) *
          (a.values[(expert * rank + k) * inner + j] as number);
      }
      return value + Math.fround((4 / rank) * sum);
    });
    const tensors = { 'm.experts.lora_A.weight': a, 'm.experts.lora_B.weight': b };
    return {
      base: { 'm.experts.gate_up_proj': w },
      adapter: peft(tensors, { r: rank, target_parameters: ['experts.gate_up_proj'] }),
      expected: { 'm.experts.gate_up_proj': expected },
    };
  },
};

describe.each(Object.entries(KINDS))('%s', (_, make) => {
  it(`has the values of the formula, ${COUNT} times`, async () => {
    for (let number = 0; number < COUNT; number++) {
      const { base, adapter, others = [], expected } = make(new Random(57, number));
      const model = await mergeAdapters(checkpoint(base), [adapter, ...others]);
      for (const [name, values] of Object.entries(expected)) expectValues(model, name, values);
      const [name] = Object.keys(expected) as [string];
      const whole = model.getTensor(name).toFloat32();
      const last = model.info(name).shape.at(-1) as number;
      const rows = whole.length / last;
      const first = number % rows;
      const part = model.getTensor(name).toFloat32({ rows: [first, rows] });
      expect(part).toEqual(whole.subarray(first * last));
    }
  });
});
