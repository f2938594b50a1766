/** Merges by kernels: the same bits as in TypeScript, with all instructions, and in pieces of any length. */
import { afterEach, describe, expect, it } from 'vitest';
import { PIECE_LENGTH } from '../../../src/merge/elements.js';
import { seededDraw } from '../../../src/merge/models/methods/random.js';
import { addProductInTypeScript } from '../../../src/merge/product.js';
import type { CastSource } from '../../../src/tensor/float32/cast.js';
import {
  type MergedElements,
  provideKernels,
  type SurveyedElements,
} from '../../../src/tensor/float32/kernels.js';
import {
  type Checkpoint,
  type MergeModelsRecipe,
  mergeModels,
  parse,
  safeOpen,
  saveCheckpoint,
  serialize,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { addon, bytesOf, ways } from '../../tensor/float32/cast-tables.js';

const DTYPES: readonly CastSource[] = ['F32', 'F16', 'BF16'];
const levels = ways.filter((way) => way !== 'TypeScript');
const SPECIAL = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1e-40, 3e38];

/** Elements of random values; many differ from those of `near` by nothing, or by the same. */
function elements(r: Random, length: number, dtype: CastSource, near?: Float64Array): Uint8Array {
  const steps = r.pick([2, 1000]);
  const values = Float64Array.from({ length }, (_, i) => {
    const value = r.from(-steps, steps) / steps;
    return near === undefined ? value : (near[i] as number) + value / 8;
  });
  if (r.chance(0.2)) values[r.from(0, length - 1)] = r.pick(SPECIAL);
  const bytes = new Uint8Array(values.buffer);
  const output = new Uint8Array(length * bytesOf(dtype));
  const none = { left: new Float64Array(0), right: new Float32Array(0), columns: length };
  addProductInTypeScript({ ...none, from: 'F64', to: dtype, bytes, output });
  return output;
}

function numbers(bytes: Uint8Array, dtype: CastSource): Float64Array {
  const output = new Uint8Array((bytes.length / bytesOf(dtype)) * 8);
  const none = { left: new Float64Array(0), right: new Float32Array(0) };
  const columns = output.length / 8;
  addProductInTypeScript({ ...none, columns, from: dtype, to: 'F64', bytes, output });
  return new Float64Array(output.buffer);
}

interface Given {
  readonly dtypes: readonly CastSource[];
  readonly inputs: readonly Uint8Array[];
  readonly shape: readonly number[];
}

function inputs(r: Random, count: number, length: number): Given {
  const dtypes = Array.from({ length: count }, () => r.pick(DTYPES));
  const base = elements(r, length, dtypes[0] as CastSource);
  const near = numbers(base, dtypes[0] as CastSource);
  const others = dtypes.slice(1).map((dtype) => elements(r, length, dtype, near));
  return { dtypes, inputs: [base, ...others], shape: [length] };
}

const METHODS = {
  linear: { min: 1, hasBase: false, settings: (r: Random) => ({ normalize: r.chance(0.5) }) },
  slerp: { min: 2, max: 2, hasBase: true, settings: (r: Random) => ({ t: r.from(0, 9) / 9 }) },
  task_arithmetic: {
    min: 2,
    hasBase: true,
    settings: (r: Random) => ({ normalize: r.chance(0.5) }),
  },
  ties: { min: 2, hasBase: true, settings: taskSettings },
  dare_ties: { min: 2, hasBase: true, settings: taskSettings },
  dare_linear: { min: 2, hasBase: true, settings: taskSettings },
  model_stock: { min: 3, hasBase: true, settings: () => ({}) },
} as const;

function taskSettings(r: Random): Record<string, unknown> {
  const seed = r.from(0, 2 ** 40);
  return { normalize: r.chance(0.5), rescale: r.chance(0.5), lambda: r.from(-9, 9) / 7, seed };
}

async function merge(method: keyof typeof METHODS, number: number): Promise<Float64Array> {
  const r = new Random(571, number);
  const { min, hasBase, settings, ...limits } = METHODS[method];
  const count = r.from(min, 'max' in limits ? limits.max : 5);
  const shape = [r.from(1, 40), r.pick([1, 3, 16, 100, 333])];
  const length = (shape[0] as number) * (shape[1] as number);
  const { dtypes, inputs: arrays } = inputs(r, count, length);
  const sources = arrays.map((data, i) =>
    parse(serialize(new Map([['x', { dtype: dtypes[i], shape, data } as never]]))),
  );
  const models = sources.slice(hasBase ? 1 : 0).map((source) => ({
    source,
    ...(method === 'slerp' || method === 'model_stock' ? {} : { weight: r.from(-9, 20) / 7 || 1 }),
    ...('seed' in settings(r) ? { density: r.from(1, 12) / 10 } : {}),
  }));
  const base = hasBase ? { base: sources[0] } : {};
  const dtype = r.pick(DTYPES);
  const recipe = { method, ...base, models, dtype, ...settings(r) };
  try {
    const merged = await mergeModels(recipe as never, { nonFinite: 'keep' });
    const tensor = (merged as Checkpoint).getTensor('x');
    return numbers(tensor.bytes, dtype);
  } catch (error) {
    // Weights that add up to 0.
    expect(error).toMatchObject({ code: 'SAFETENSORS_INVALID_RECIPE' });
    return new Float64Array(0);
  }
}

afterEach(() => provideKernels(() => addon));

function provideLevel(level: 'plain' | 'avx2' | 'TypeScript'): void {
  provideKernels(() =>
    level === 'TypeScript'
      ? undefined
      : {
          ...addon,
          survey: (elements) => addon.survey(elements, level),
          mergeElements: (elements) => addon.mergeElements(elements, level),
        },
  );
}

describe.each(Object.keys(METHODS) as (keyof typeof METHODS)[])('%s', (method) => {
  it('has the bits of TypeScript, 100 times', async () => {
    for (let number = 0; number < 100; number++) {
      provideLevel('TypeScript');
      const expected = await merge(method, number);
      for (const level of levels) {
        provideLevel(level);
        const found = await merge(method, number);
        // All NaN are the same.
        const other = found.findIndex((value, i) => !Object.is(value, expected[i]));
        if (other === -1 && found.length === expected.length) continue;
        const values = `${found[other]}, not ${expected[other]}`;
        expect.fail(`${method} ${number}, ${level}: [${other}] is ${values}`);
      }
    }
  });
});

describe('tensors of several pieces', () => {
  const r = new Random(574, 1);
  // The last piece ends within a group of lanes.
  const shape = [5, Math.ceil(0.55 * PIECE_LENGTH) + 1];
  const { dtypes, inputs: arrays } = inputs(r, 3, (shape[0] as number) * (shape[1] as number));
  const [base, one, other] = arrays.map((data, i) =>
    parse(serialize(new Map([['x', { dtype: dtypes[i], shape, data } as never]]))),
  ) as [Checkpoint, Checkpoint, Checkpoint];
  const first = { source: one, weight: 0.7, density: 0.4 };
  const second = { source: other, weight: 0.2, density: 0.9 };

  it.each<[string, Exclude<MergeModelsRecipe, string | URL>]>([
    ['slerp', { method: 'slerp', base, models: [{ source: one }], t: 0.3 }],
    ['model stock', { method: 'model_stock', base, models: [{ source: one }, { source: other }] }],
    ['TIES of one model', { method: 'ties', base, models: [first], rescale: true }],
    ['TIES of two models', { method: 'ties', base, models: [first, second], rescale: true }],
    ['DARE of one model', { method: 'dare_linear', base, models: [first] }],
    ['DARE of two models', { method: 'dare_ties', base, models: [first, second] }],
  ])('%s: the bits of TypeScript, on this thread and on the pool', async (_, recipe) => {
    // Factors that are not rounded to the dtype of the models.
    const merge = () => mergeModels({ ...recipe, dtype: 'F64' }, { nonFinite: 'keep' });
    provideLevel('TypeScript');
    const expected = ((await merge()) as Checkpoint).getTensor('x').bytes;
    provideLevel('plain');
    const here = ((await merge()) as Checkpoint).getTensor('x').bytes;
    expect(Buffer.compare(here, expected)).toBe(0);
    const folder = temporaryPath('merged');
    await saveCheckpoint(folder, await merge());
    expect(Buffer.compare(safeOpen(folder).getTensor('x').bytes, expected)).toBe(0);
  });

  it('are surveyed on two threads, even those of one model', async () => {
    let [running, most] = [0, 0];
    const surveyAsync = async (elements: SurveyedElements): Promise<void> => {
      most = Math.max(most, ++running);
      await addon.surveyAsync(elements);
      running--;
    };
    provideKernels(() => ({ ...addon, surveyAsync }));
    const recipe = { method: 'ties', base, models: [first] } as const;
    const merged = await mergeModels(recipe, { nonFinite: 'keep' });
    await saveCheckpoint(temporaryPath('merged'), merged, { durable: false });
    expect([running, most]).toEqual([0, 2]);
  });
});

const RULES = {
  weighted: [0, 0.3, 0.7, -0.1],
  summed: [1, 0.9, 0, 0.5, 0.5, 0, 0, 0, 0, 0.7, 0.7, 2, 7, 8, 2 ** 31],
  voted: [2, 1.1, 1, 0.5, 0.5, 1, 0x3e000000, 700, 0, -0.7, -0.7, 2, 7, 8, 2 ** 31],
};

describe.each(levels)('%s', (level) => {
  const length = 1000;
  const { dtypes: from, inputs: bytes } = inputs(new Random(572, 1), 3, length);
  const ends = [0, 1, 16, 17, 300, 555, 999, 1000];
  const part = (begin: number, end: number): Pick<MergedElements, 'from' | 'bytes'> => ({
    from,
    bytes: bytes.map((one, i) => {
      const width = bytesOf(from[i] as CastSource);
      return one.subarray(begin * width, end * width);
    }),
  });

  it.each(Object.entries(RULES))('%s: the same in pieces', (_, numbers) => {
    const rules = Float64Array.from(numbers);
    const whole = new Uint8Array(4 * length);
    const to = 'F32';
    addon.mergeElements({ ...part(0, length), first: 5, to, rules, output: whole }, level);
    const pieces = new Uint8Array(4 * length);
    for (const [i, end] of ends.entries()) {
      const begin = ends[i - 1] ?? 0;
      const output = pieces.subarray(4 * begin, 4 * end);
      addon.mergeElements({ ...part(begin, end), first: 5 + begin, to, rules, output }, level);
    }
    expect(pieces).toEqual(whole);
  });

  it.each([
    ['products', [1], 24, 3],
    ['upper', [0], 2 ** 17, 2],
    ['lower', [0x3e00], 2 ** 16, 2],
    ['equal', [0x3e000000], 2, 2],
    ['sums', [2, 7, 8, 2 ** 30], 16, 2],
  ] as const)('a survey of %s is the same in pieces', (kind, numbers, count, inputCount) => {
    const rule = Float64Array.from(numbers);
    const run = (results: Float64Array, begin: number, end: number): void => {
      const { from, bytes } = part(begin, end);
      const used = { from: from.slice(0, inputCount), bytes: bytes.slice(0, inputCount) };
      addon.survey({ ...used, first: 5 + begin, kind, rule, results }, level);
    };
    const [whole, pieces] = [0, 1].map(() => new Float64Array(count).fill(3));
    run(whole as Float64Array, 0, length);
    for (const [i, end] of ends.entries()) run(pieces as Float64Array, ends[i - 1] ?? 0, end);
    // Lanes of the upper bits are added up.
    const totals = [whole, pieces].map((sums) => {
      const width = kind === 'upper' ? 2 ** 15 : count;
      const lanes = Array.from({ length: count / width }, (_, i) => i * width);
      return Array.from({ length: width }, (_, i) =>
        lanes.reduce((sum, lane) => sum + (sums?.[lane + i] as number), 0),
      );
    });
    expect(totals[1]).toEqual(totals[0]);
  });

  it.each([0, 2 ** 33 - 8, 2 ** 33 - 7, 2 ** 40 + 3])('draws as TypeScript from %d on', (first) => {
    for (const density of [1e-12, 0.2, 0.5, 1 - 1e-12]) {
      const draw = seededDraw(3, 'x', 1, density);
      const kept = new Uint8Array(200);
      draw.fill(first, kept);
      const base = new Uint8Array(400);
      const ones = new Uint8Array(Uint16Array.from(kept, () => 0x3f80).buffer);
      const rules = Float64Array.of(1, 1, 0, 1, 1, ...(draw.selection as readonly number[]));
      const output = new Uint8Array(800);
      const elements = { from: ['BF16', 'BF16'], bytes: [base, ones], first, to: 'F32' } as const;
      addon.mergeElements({ ...elements, rules, output }, level);
      expect([...new Float32Array(output.buffer)]).toEqual([...kept]);
    }
  });
});

describe('kernels on the pool', () => {
  const { dtypes: from, inputs: bytes } = inputs(new Random(573, 1), 2, 100);
  const elements = { from, bytes, first: 0 } as const;
  const rule = Float64Array.of(0, 0, 0, 0);
  const survey = { ...elements, kind: 'sums', rule, results: new Float64Array(16) } as const;
  const rules = Float64Array.of(0, 1, 2);
  const merge = { ...elements, to: 'F32', rules, output: new Uint8Array(400) } as const;

  it('have the same results', async () => {
    const results = new Float64Array(16);
    await addon.surveyAsync({ ...survey, results });
    addon.survey(survey);
    expect(results).toEqual(survey.results);
    const output = new Uint8Array(400);
    const count = await addon.mergeElementsAsync({ ...merge, output });
    expect(addon.mergeElements(merge)).toBe(count);
    expect(output).toEqual(merge.output);
  });

  it.each([
    ['kind', { kind: 'other' }],
    ['dtypes', { from: [] }],
    ['dtypes', { from: ['F64', 'F32'] }],
    ['first', { first: -1 }],
    ['arrays', { bytes: bytes.slice(1) }],
    ['arrays', { bytes: [bytes[0], bytes[1]?.subarray(4)] }],
    ['arrays', { bytes: [bytes[0], 'text'] }],
    ['arrays', { from: ['F32'], bytes: [new Uint8Array(4)] }],
    ['rule', { rule: Float64Array.of(3, 0, 0, 0) }],
    ['rule', { kind: 'lower', rule: Float64Array.of(-1) }],
    ['results', { results: new Float64Array(15) }],
  ])('check %s of a survey: %j', async (name, changes) => {
    const given = { ...survey, ...changes } as unknown as SurveyedElements;
    await expect(addon.surveyAsync(given)).rejects.toThrow(name);
  });

  it.each([
    ['to', { to: 'F64' }],
    ['rules', { rules: Float64Array.of(0, 1) }],
    ['rules', { rules: Float64Array.of(3, 1, 1) }],
    ['rules', { rules: new Float64Array(0) }],
    ['rules', { rules: Float64Array.of(1, 1, 0, 1, 1, 2, 2 ** 32, 0, 0) }],
    ['output', { output: new Uint8Array(399) }],
  ])('check %s of a merge: %j', async (name, changes) => {
    const given = { ...merge, ...changes } as unknown as MergedElements;
    await expect(addon.mergeElementsAsync(given)).rejects.toThrow(name);
  });
});
