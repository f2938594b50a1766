/** Models with the values that mergekit and A1111 compute: whole, by rows, saved, and from remote models. */
import { appendFileSync, cpSync, existsSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { mergeModelsWith } from '../../../src/merge/models/merge-models.js';
import { readRecipe } from '../../../src/open/read-recipe.js';
import { call } from '../../cli/call.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  fromFloat32,
  type MergeModelsRecipe,
  mergeModels,
  open,
  openRemote,
  type RemoteCheckpoint,
  safeOpen,
  saveCheckpoint,
  type Tensor,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { pathOf } from '../fixtures.js';

interface Fixture {
  readonly name: string;
  readonly recipe: MergeModelsRecipe;
  /** The same on the command line. */
  readonly args: readonly string[];
  /** Greatest difference, relative to the largest value of a tensor. */
  readonly tolerance: number;
  readonly skips?: boolean;
  /** Densities of models, where equal changes at the cut are kept in another order. */
  readonly densities?: Readonly<Record<string, number>>;
}

const mergekit = (name: string, tolerance: number, skips = false): Fixture => ({
  name,
  recipe: pathOf(name, 'config.yml'),
  args: [pathOf(name, 'config.yml')],
  tolerance,
  skips,
});

const models = (name: string, files: readonly string[]): { readonly source: string }[] =>
  filesOf(name, files).map((source) => ({ source }));

function filesOf(name: string, files: readonly string[]): string[] {
  return files.map((file) => pathOf(name, `${file}.safetensors`));
}

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
    args: [
      ...filesOf('sdwebui-weighted-sum-f16', ['a', 'b']),
      '--method',
      'weighted_sum',
      '--alpha',
      '0.3',
    ],
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
    args: [
      ...filesOf('sdwebui-add-difference-f32-half', ['a', 'b', 'c']),
      ...['--method', 'add_difference', '--alpha', '0.7', '--dtype', 'F16'],
    ],
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

  it('has the same values by rows, saved, and by the command', async () => {
    const merged = (await merge(fixture)) as Checkpoint;
    const [folder, written] = [temporaryPath('saved'), temporaryPath('written')];
    await saveCheckpoint(folder, merged, { maxShardSize: '1KB' });
    const skip = fixture.skips === true ? ['--unmatched', 'skip'] : [];
    const { code, stderr } = await call(['merge', ...fixture.args, ...skip, '-o', written]);
    expect([code, stderr]).toEqual([0, '']);
    const [saved, byCommand] = [safeOpen(folder), safeOpen(written)];
    expect(saved.keys()).toEqual(merged.keys());
    expect(byCommand.keys()).toEqual(merged.keys());
    for (const [name, tensor] of merged) {
      const { bytes, shape } = tensor;
      expect(saved.getTensor(name).bytes).toEqual(bytes);
      expect(byCommand.getTensor(name).bytes).toEqual(bytes);
      const [rows = 1] = shape;
      const middle = Math.floor(rows / 2);
      const part = merged.getSlice(name, `${middle}:`);
      expect(part.copy().bytes).toEqual(bytes.subarray((bytes.length / rows) * middle));
      expect(merged.getSlice(name, '..., 1::2').copy().bytes).toEqual(
        tensor.slice('..., 1::2').copy().bytes,
      );
    }
    expect(configOf(readConfig(written))).toEqual(
      configOf(readConfig(pathOf(fixture.name), 'expected.')),
    );
    expect(merged.metadata?.get('safetensors-mmap.merge')).not.toContain('/');
    merged.close();
  });

  it('has the same values from remote models', async () => {
    const local = (await merge(fixture)) as Checkpoint;
    const recipe = await withBlobs(fixture.recipe);
    const remote = (await mergeModels(recipe, {
      unmatched: fixture.skips === true ? 'skip' : 'error',
    })) as RemoteCheckpoint;
    expect(remote.local).toBe(false);
    const read = await remote.readTensors();
    for (const [name, tensor] of local) {
      expect(read.get(name)?.bytes, name).toEqual(tensor.bytes);
      const slice = await remote.getSlice(name, '1:, ...');
      expect(slice.bytes).toEqual(tensor.slice('1:, ...').copy().bytes);
    }
    local.close();
    remote.close();
  });
});

/** The recipe as an object whose models are Blobs: every second one, for a mix with local ones. */
async function withBlobs(recipe: MergeModelsRecipe): Promise<MergeModelsRecipe> {
  const isFile = typeof recipe === 'string';
  const parsed = isFile ? parse(readFileSync(recipe, 'utf8')) : structuredClone(recipe);
  const opened = new Map<string, unknown>();
  const blobOf = async (source: string): Promise<unknown> => {
    const path = isFile ? join(dirname(recipe), source) : source;
    if (!opened.has(path)) {
      const file = path.endsWith('.safetensors') ? path : join(path, 'model.safetensors');
      const blob = new Blob([readFileSync(file)]);
      opened.set(path, opened.size % 2 === 0 ? await openRemote(blob) : safeOpen(path));
    }
    return opened.get(path);
  };
  const replace = async (object: Record<string, unknown>): Promise<void> => {
    for (const [key, value] of Object.entries(object)) {
      if (typeof value === 'object' && value !== null) await replace(value as typeof object);
      else if (['model', 'source', 'base_model'].includes(key))
        object[key] = await blobOf(String(value));
    }
  };
  await replace(parsed);
  return parsed;
}

function readConfig(folder: string, prefix = ''): Record<string, unknown> | null {
  const path = join(folder, `${prefix}config.json`);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
}

/** What mergekit sets. It leaves the vocabulary of the first model, which is that of the result here. */
function configOf(config: Record<string, unknown> | null): unknown {
  if (config === null) return null;
  const { num_hidden_layers: layers, vocab_size: size, torch_dtype: dtype } = config;
  return [layers, size, dtype ?? config['dtype'], config['tie_word_embeddings']];
}

it('mk-missing-error: a tensor that a model lacks', async () => {
  const merging = mergeModels(pathOf('mk-missing-error', 'config.yml'));
  await expect(merging).rejects.toMatchObject({
    code: 'SAFETENSORS_MERGE_UNMATCHED',
    message: expect.stringContaining('model "b" lacks "model.layers.0.self_attn.k_proj.weight"'),
  });
});

it('mk-linear-vocab-mismatch: vocabularies of different lengths', async () => {
  const merging = mergeModels(pathOf('mk-linear-vocab-mismatch', 'config.yml'));
  await expect(merging).rejects.toMatchObject({
    code: 'SAFETENSORS_MERGE_MISMATCH',
    message: expect.stringMatching(
      /of shape \[10, 8\], but model "b" has .* of shape \[11|12|13, 8\]/,
    ),
  });
});

it('mk-tokenizer-union-base: the union of two vocabularies', async () => {
  const folder = 'mk-tokenizer-union-base';
  const merged = (await mergeModels(pathOf(folder, 'config.yml'))) as Checkpoint;
  const expected = safeOpen(pathOf(folder, 'expected.safetensors'));
  const [ids, expectedIds] = [
    idsOf((await merged.sibling('tokenizer.json'))?.bytes),
    idsOf(readFileSync(pathOf(folder, 'expected.tokenizer.json'))),
  ];
  // mergekit appends new tokens in the order of a hash table, which differs from run to run: here by their ids.
  expect([...ids.keys()].sort()).toEqual([...expectedIds.keys()].sort());
  expect([ids.get('<unk>'), ids.get('d'), ids.get('e'), ids.get('f'), ids.get('<x>')]).toEqual([
    0, 4, 5, 6, 7,
  ]);
  for (const [name, tensor] of expected) {
    const found = merged.getTensor(name);
    if (!/embed_tokens|lm_head/.test(name)) {
      expect(differences(found, tensor, F32)).toEqual([]);
      continue;
    }
    const rows = [...expectedIds].sort(([, a], [, b]) => a - b).map(([token]) => ids.get(token));
    const permuted = found.take(rows as number[]);
    expect(differences(permuted, tensor, F32), name).toEqual([]);
  }
  const config = await merged.sibling('config.json');
  expect(JSON.parse(new TextDecoder().decode(config?.bytes))).toMatchObject({ vocab_size: 8 });
});

describe('a tokenizer.json of more than 10 MB', () => {
  const folder = temporaryPath('long-tokenizers');
  const recipe = join(folder, 'config.yml');
  const path = join(folder, 'a/tokenizer.json');

  beforeAll(() => {
    cpSync(pathOf('mk-tokenizer-union-base'), folder, { recursive: true });
    appendFileSync(path, ' '.repeat(10_000_001 - statSync(path).size));
  });

  it('is read', async () => {
    const merged = await mergeModels(recipe);
    const original = await mergeModels(pathOf('mk-tokenizer-union-base', 'config.yml'));
    const [ids, expected] = [
      idsOf((await merged.sibling('tokenizer.json'))?.bytes),
      idsOf((await original.sibling('tokenizer.json'))?.bytes),
    ];
    expect(ids).toEqual(expected);
  });

  it('is an error above 64 MiB', async () => {
    truncateSync(path, 2 ** 26 + 1);
    await expect(mergeModels(recipe)).rejects.toMatchObject({
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      message: expect.stringContaining('has a tokenizer.json of more than 64 MiB'),
    });
  });
});

function idsOf(bytes: Uint8Array | undefined): Map<string, number> {
  const { model, added_tokens: added } = JSON.parse(new TextDecoder().decode(bytes));
  const addedIds = added.map(({ id, content }: { id: number; content: string }) => [content, id]);
  return new Map([...Object.entries<number>(model.vocab), ...addedIds]);
}

it('mk-dare-ties: with the choices that torch drew', async () => {
  const masks = safeOpen(pathOf('mk-dare-ties', 'masks.safetensors'));
  const { view } = await mergeModelsWith(
    { open: open as never, exists: existsSync, readRecipe },
    pathOf('mk-dare-ties', 'config.yml'),
    {},
    (tensor, input) => {
      const mask = masks.getTensor(`${input === 1 ? 'a' : 'b'}/${tensor}`).toFloat32();
      const fill = (first: number, kept: Uint8Array): void =>
        kept.set(mask.subarray(first, first + kept.length));
      return { fill, selection: undefined };
    },
  );
  const merged = view as unknown as Checkpoint;
  for (const [name, tensor] of safeOpen(pathOf('mk-dare-ties', 'expected.safetensors'))) {
    expect(differences(merged.getTensor(name), tensor, F32), name).toEqual([]);
  }
});
