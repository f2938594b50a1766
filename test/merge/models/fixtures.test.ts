/** Models with the values that mergekit and A1111 compute: whole, by rows, saved, and from remote models. */
import { describe, expect, it } from 'vitest';
import {
  type AnyCheckpoint,
  type Checkpoint,
  fromFloat32,
  type MergeModelsRecipe,
  mergeModels,
  safeOpen,
  type Tensor,
} from '../../support/api.js';
import { pathOf } from '../fixtures.js';

interface Fixture {
  readonly name: string;
  readonly recipe: MergeModelsRecipe;
  /** Greatest difference, relative to the largest value of a tensor. */
  readonly tolerance: number;
  readonly skips?: boolean;
  /** Densities of models, where equal changes at the cut are kept in another order. */
  readonly densities?: Readonly<Record<string, number>>;
}

const mergekit = (name: string, tolerance: number, skips = false): Fixture => ({
  name,
  recipe: pathOf(name, 'config.yml'),
  tolerance,
  skips,
});

const models = (name: string, files: readonly string[]): { readonly source: string }[] =>
  files.map((file) => ({ source: pathOf(name, `${file}.safetensors`) }));

/** An F32 step, and half of a step of BF16. */
const [F32, BF16] = [3e-7, 2 ** -7];

const FIXTURES: readonly Fixture[] = [
  mergekit('mk-linear-f32', F32),
  mergekit('mk-linear-bf16', BF16),
  mergekit('mk-linear-f32-out-bf16', 2 ** -8),
  mergekit('mk-linear-vocab-mismatch', F32, true),
  mergekit('mk-model-stock', F32),
  mergekit('mk-passthrough-frankenmerge', BF16),
  mergekit('mk-slerp-gradient-bf16', BF16),
  mergekit('mk-task-arithmetic', F32),
  mergekit('mk-tied', F32),
  mergekit('mk-ties-f32', F32),
  { ...mergekit('mk-ties-bf16-int8mask', BF16), densities: { a: 0.4, b: 0.7 } },
  {
    name: 'sdwebui-weighted-sum-f16',
    recipe: {
      method: 'weighted_sum',
      models: models('sdwebui-weighted-sum-f16', ['a', 'b']),
      alpha: 0.3,
    },
    tolerance: 2 ** -10,
  },
  {
    name: 'sdwebui-add-difference-f32-half',
    recipe: {
      method: 'add_difference',
      models: models('sdwebui-add-difference-f32-half', ['a', 'b', 'c']),
      alpha: 0.7,
      dtype: 'F16',
    },
    tolerance: 2 ** -10,
  },
];

function merge({ recipe, skips }: Fixture): Promise<AnyCheckpoint> {
  return mergeModels(recipe, { unmatched: skips === true ? 'skip' : 'error' });
}

/** Positions of elements that differ. */
function differences(found: Tensor, expected: Tensor, tolerance: number): number[] {
  expect([found.name, found.dtype, found.shape]).toEqual([
    expected.name,
    expected.dtype,
    expected.shape,
  ]);
  if (expected.dtype === 'I64') {
    expect(found.bytes).toEqual(expected.bytes);
    return [];
  }
  const [values, own] = [expected.toFloat32(), found.toFloat32()];
  const largest = values.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  const isFar = (value: number, i: number): boolean =>
    !(Math.abs(value - (own[i] as number)) <= tolerance * largest);
  return [...values.keys()].filter((i) => isFar(values[i] as number, i));
}

/**
 * The elements of which a model's change is as large as the smallest one that mergekit keeps: which of these it keeps
 * is the order of an unstable sort. It rounds changes to BF16.
 */
function atCuts(
  fixture: string,
  name: string,
  densities: Readonly<Record<string, number>>,
): Set<number> {
  const open = (model: string): Float32Array =>
    safeOpen(pathOf(fixture, model)).getTensor(name).toFloat32();
  const base = open('base');
  const found = new Set<number>();
  for (const [model, density] of Object.entries(densities)) {
    const changes = open(model).map((value, i) => value - (base[i] as number));
    const rounded = toFloat32Array(fromFloat32(changes, 'BF16')).map(Math.abs);
    const cut = rounded.toSorted((a, b) => b - a)[Math.floor(density * rounded.length) - 1];
    for (const [i, value] of rounded.entries()) if (value === cut) found.add(i);
  }
  return found;
}

/** BF16 to float32. */
function toFloat32Array(words: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(words, (word) => word * 2 ** 16).buffer);
}

describe.each(FIXTURES)('$name', (fixture) => {
  it('is merged as the original merges it', async () => {
    const merged = (await merge(fixture)) as Checkpoint;
    const { densities } = fixture;
    const expected = safeOpen(pathOf(fixture.name, 'expected.safetensors'));
    expect(merged.keys()).toEqual(expected.keys());
    for (const [name, tensor] of expected) {
      const found = differences(merged.getTensor(name), tensor, fixture.tolerance);
      const free = densities === undefined ? new Set() : atCuts(fixture.name, name, densities);
      expect(
        found.filter((i) => !free.has(i)),
        name,
      ).toEqual([]);
    }
    merged.close();
  });
});
