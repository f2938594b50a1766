/** Random recipes of every method against its formula, in float64 and without any shortcut. */
import { afterAll, describe, expect, it } from 'vitest';
import { seededDraw } from '../../../src/merge/models/methods/random.js';
import { type Checkpoint, mergeAdapters, mergeModels, select } from '../../support/api.js';
import { Random } from '../../support/random.js';
import { checkpoint, peft, type Values, valuesOf } from '../make-adapter.js';

const COUNT = 200;

type Numbers = readonly number[];

/** Parameters of a recipe, and the tensors: the first is that of the base, or of the first model. */
interface Inputs {
  readonly x: readonly Numbers[];
  readonly weights: Numbers;
  readonly densities: Numbers;
  readonly settings: Readonly<Record<string, number | boolean>>;
  readonly shape: Numbers;
}

interface Method {
  readonly hasBase: boolean;
  /** Number of models besides the base. */
  readonly models: readonly [min: number, max: number];
  readonly ofModels: readonly ('weight' | 'density')[];
  /** Least size of a dimension: the changes of a single element are parallel or opposite, which has no result. */
  readonly minSize?: number;
  settings(r: Random): Inputs['settings'];
  formula(inputs: Inputs): Numbers;
}

const sum = (values: Numbers): number => values.reduce((total, value) => total + value, 0);
const dot = (a: Numbers, b: Numbers): number => sum(a.map((value, i) => value * (b[i] as number)));
const norm = (a: Numbers): number => Math.sqrt(dot(a, a));
const element = (values: Numbers | undefined, i: number): number => values?.[i] as number;

/** What each model changes, as float64. */
function deltasOf({ x: [base, ...models] }: Inputs): Numbers[] {
  return models.map((model) => model.map((value, i) => value - element(base, i)));
}

/** Keeps the largest; of equal ones the first. Sorts, as the originals do. */
function largest(deltas: Numbers, density: number, rescale: boolean): Numbers {
  if (density >= 1) return deltas;
  const count = Math.max(1, Math.floor(density * deltas.length));
  const magnitudes = deltas.map((value) => Math.abs(Math.fround(value)));
  const order = [...deltas.keys()].sort((a, b) => element(magnitudes, b) - element(magnitudes, a));
  const kept = new Set(order.slice(0, count));
  const masked = deltas.map((value, i) => (kept.has(i) ? value : 0));
  const [all, left] = [sum(magnitudes), sum(magnitudes.filter((_, i) => kept.has(i)))];
  const factor = rescale && all >= 1e-7 && left >= 1e-7 ? all / left : 1;
  return masked.map((value) => value * factor);
}

function divisor(value: number): number {
  return Math.abs(value) < 1e-8 ? 1 : value;
}

function ties(inputs: Inputs, kept: readonly Numbers[]): Numbers {
  const { x, weights, settings } = inputs;
  const { normalize = true, lambda = 1 } = settings;
  return (x[0] as Numbers).map((base, i) => {
    const scaled = kept.map((delta, m) => element(weights, m) * element(delta, i));
    const sign = sum(scaled) >= 0 ? 1 : -1;
    const agree = scaled.map((value) => Math.sign(value) === sign);
    const total = sum(scaled.filter((_, m) => agree[m]));
    const by = normalize ? divisor(sum(weights.filter((_, m) => agree[m]))) : 1;
    return base + (Number(lambda) * total) / by;
  });
}

/** Keeps what the generator draws with the seed 0. */
function drawn(inputs: Inputs): Numbers[] {
  const { densities, settings } = inputs;
  return deltasOf(inputs).map((delta, m) => {
    const density = element(densities, m);
    if (density >= 1) return delta;
    const kept = new Uint8Array(delta.length);
    seededDraw(0, 'x', m + 1, density).fill(0, kept);
    const masked = delta.map((value, i) => value * (kept[i] as number));
    const [all, left] = [delta, masked].map((values) => sum(values.map(Math.abs))) as [
      number,
      number,
    ];
    const factor = settings['rescale'] && all >= 1e-7 && left >= 1e-7 ? all / left : 1;
    return masked.map((value) => value * factor);
  });
}

const taskSettings = (r: Random): Inputs['settings'] => ({
  normalize: r.chance(0.5),
  rescale: r.chance(0.5),
  lambda: r.from(1, 20) / 10,
});

const METHODS: Readonly<Record<string, Method>> = {
  linear: {
    hasBase: false,
    models: [1, 5],
    ofModels: ['weight'],
    settings: (r) => (r.chance(0.5) ? {} : { normalize: false }),
    formula: ({ x, weights, settings: { normalize = true } }) => {
      const by = normalize ? sum(weights) : 1;
      return (x[0] as Numbers).map(
        (_, i) => sum(x.map((values, m) => element(values, i) * element(weights, m))) / by,
      );
    },
  },
  slerp: {
    hasBase: true,
    models: [1, 1],
    ofModels: [],
    settings: (r) => ({ t: r.from(0, 100) / 100 }),
    formula: ({ x: [a = [], b = []], settings: { t } }) => {
      const unit = (values: Numbers): Numbers => {
        const length = norm(values);
        return length > 1e-8 ? values.map((value) => value / length) : values;
      };
      const cosine = dot(unit(a), unit(b));
      const part = Number(t);
      const angle = Math.acos(cosine);
      const [p, q] =
        Math.abs(cosine) > 0.9995
          ? [1 - part, part]
          : [Math.sin(angle - angle * part), Math.sin(angle * part)].map(
              (value) => value / Math.sin(angle),
            );
      return a.map((value, i) => (p as number) * value + (q as number) * element(b, i));
    },
  },
  task_arithmetic: {
    hasBase: true,
    models: [1, 4],
    ofModels: ['weight'],
    settings: (r) => ({ lambda: r.from(-20, 20) / 10, normalize: r.chance(0.5) }),
    formula: (inputs) => {
      const { x, weights, settings } = inputs;
      const by = settings['normalize'] ? divisor(sum(weights)) : 1;
      const deltas = deltasOf(inputs);
      return (x[0] as Numbers).map((base, i) => {
        const scaled = deltas.map((delta, m) => element(weights, m) * element(delta, i));
        return base + (Number(settings['lambda']) * sum(scaled)) / by;
      });
    },
  },
  ties: {
    hasBase: true,
    models: [1, 4],
    ofModels: ['weight', 'density'],
    settings: taskSettings,
    formula: (inputs) => {
      const { densities, settings } = inputs;
      const kept = deltasOf(inputs).map((delta, m) =>
        largest(delta, element(densities, m), settings['rescale'] === true),
      );
      return ties(inputs, kept);
    },
  },
  dare_linear: {
    hasBase: true,
    models: [1, 4],
    ofModels: ['weight', 'density'],
    settings: taskSettings,
    formula: (inputs) => {
      const { x, weights, settings } = inputs;
      const kept = drawn(inputs);
      const by = settings['normalize'] ? divisor(sum(weights)) : 1;
      return (x[0] as Numbers).map((base, i) => {
        const scaled = kept.map((delta, m) => element(weights, m) * element(delta, i));
        return base + (Number(settings['lambda']) * sum(scaled)) / by;
      });
    },
  },
  dare_ties: {
    hasBase: true,
    models: [1, 4],
    ofModels: ['weight', 'density'],
    settings: taskSettings,
    formula: (inputs) => ties(inputs, drawn(inputs)),
  },
  passthrough: {
    hasBase: false,
    models: [1, 1],
    ofModels: [],
    settings: (r) => ({ scale: r.from(-20, 20) / 10 }),
    formula: ({ x: [a = []], settings: { scale } }) => a.map((value) => Number(scale) * value),
  },
  model_stock: {
    hasBase: true,
    models: [2, 4],
    ofModels: [],
    minSize: 4,
    settings: (r) => (r.chance(0.5) ? {} : { filterWise: true }),
    formula: (inputs) => {
      const { x, shape, settings } = inputs;
      const columns =
        shape.length < 2 || !settings['filterWise'] ? (x[0] as Numbers).length : shape.at(-1);
      const result: number[] = [];
      for (let at = 0; at < (x[0] as Numbers).length; at += columns as number) {
        const rows = x.map((values) => values.slice(at, at + (columns as number)));
        const deltas = deltasOf({ ...inputs, x: rows });
        const cosines = deltas.flatMap((a, i) =>
          deltas.slice(i + 1).map((b) => {
            const cosine = dot(a, b) / Math.max(norm(a) * norm(b), 1e-6);
            return Math.min(Math.max(cosine, -1), 1);
          }),
        );
        const cosine = sum(cosines) / cosines.length;
        const count = deltas.length;
        const t = (count * cosine) / (1 + (count - 1) * cosine);
        const [base = [], ...models] = rows;
        for (const [i, value] of base.entries()) {
          const mean = sum(models.map((model) => element(model, i))) / count;
          result.push(t * mean + (1 - t) * value);
        }
      }
      return result;
    },
  },
  weighted_sum: {
    hasBase: false,
    models: [2, 2],
    ofModels: [],
    settings: (r) => ({ alpha: r.from(-50, 150) / 100 }),
    formula: ({ x: [a = [], b], settings: { alpha } }) =>
      a.map((value, i) => (1 - Number(alpha)) * value + Number(alpha) * element(b, i)),
  },
  add_difference: {
    hasBase: false,
    models: [3, 3],
    ofModels: [],
    settings: (r) => ({ alpha: r.from(-50, 150) / 100 }),
    formula: ({ x: [a = [], b, c], settings: { alpha } }) =>
      a.map((value, i) => value + Number(alpha) * (element(b, i) - element(c, i))),
  },
};

function tensor(r: Random, shape: Numbers, near: Values | null): Values {
  const length = shape.reduce((product, size) => product * size, 1);
  // Few different values: many equal changes.
  const steps = r.pick([3, 1000]);
  const values = Float32Array.from({ length }, (_, i) => {
    const value = r.from(-steps, steps) / steps;
    return near === null ? value : (near.values[i] as number) + value / 10;
  });
  return valuesOf(shape, values);
}

/** Merges a random recipe, and returns the expected values. */
async function mergeRandom(
  name: string,
  r: Random,
): Promise<{ readonly merged: Checkpoint; readonly expected: Numbers }> {
  const method = METHODS[name] as Method;
  const { hasBase, models, ofModels, minSize = 1, settings: settingsOf, formula } = method;
  const dimensions = r.from(1, 3);
  const shape = Array.from({ length: dimensions }, () => r.from(minSize, 12));
  const count = r.from(models[0], models[1]);
  const base = hasBase ? tensor(r, shape, null) : null;
  const tensors = Array.from({ length: count }, () => tensor(r, shape, base));
  const weights = tensors.map(() => r.from(1, 20) / 10);
  const densities = tensors.map(() => r.from(1, 12) / 10);
  const settings = settingsOf(r);
  const merged = await mergeModels({
    method: name,
    ...(base === null ? {} : { base: checkpoint({ x: base }) }),
    models: tensors.map((one, i) => ({
      source: checkpoint({ x: one }),
      ...(ofModels.includes('weight') ? { weight: weights[i] } : {}),
      ...(ofModels.includes('density') ? { density: densities[i] } : {}),
    })),
    ...settings,
  } as never);
  const x = [...(base === null ? [] : [base]), ...tensors].map(({ values }) => [...values]);
  return {
    merged: merged as Checkpoint,
    expected: formula({ x, weights, densities, settings, shape }),
  };
}

let count = 0;
afterAll(() => process.stdout.write(`random recipes: ${count}\n`));

describe.each(Object.keys(METHODS))('%s', (name) => {
  it(`has the values of the formula, ${COUNT} times`, async () => {
    for (let number = 0; number < COUNT; number++, count++) {
      const { merged, expected } = await mergeRandom(name, new Random(57, number));
      const found = merged.getTensor('x');
      const values = found.toFloat32();
      const largest = Math.max(...expected.map(Math.abs), 1e-30);
      for (const [i, value] of expected.entries()) {
        const isNear = Math.abs((values[i] as number) - value) <= 1.3e-7 * largest;
        if (!isNear) expect.fail(`${name} ${number}: [${i}] is ${values[i]}, not ${value}`);
      }
      const last = found.shape.at(-1) as number;
      const first = number % (values.length / last);
      const rows = found.toFloat32({ rows: [first, values.length / last] });
      expect(rows).toEqual(values.subarray(first * last));
    }
  });
});

it('composes with adapters and selections', async () => {
  const [base, other] = [valuesOf([2, 2], [1, 2, 3, 4]), valuesOf([2, 2], [3, 4, 5, 6])];
  const models = [base, other].map((x) => ({ source: checkpoint({ 'x.weight': x }), weight: 1 }));
  const merged = (await mergeModels({ method: 'linear', models })) as Checkpoint;
  const adapter = peft(
    { 'x.lora_A.weight': valuesOf([1, 2], [1, 1]), 'x.lora_B.weight': valuesOf([2, 1], [1, 2]) },
    { r: 1, lora_alpha: 1 },
  );
  const tuned = select(await mergeAdapters(merged, [adapter]), { dtype: 'BF16' });
  expect([...tuned.getTensor('x.weight').toFloat32()]).toEqual([3, 4, 6, 7]);
  const again = (await mergeModels({
    method: 'slerp',
    t: 0,
    base: tuned,
    models: [{ source: merged }],
    dtype: 'float32' as never,
  })) as Checkpoint;
  expect([...again.getTensor('x.weight').toFloat32()]).toEqual([3, 4, 6, 7]);
});
