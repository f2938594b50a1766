/** Finds out which tensors the result has, and which ones of the models each is merged from. */

import type { Advice } from '../../errors/advice.js';
import { quoteNames, SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import { isBeforeLayers, isHead, layerOf } from './layers.js';
import { type Model, modelLabel } from './model.js';
import type { Recipe, RecipeSlice, RecipeSource } from './recipe.js';

/** One input of a tensor. */
export interface PlannedInput {
  readonly source: RecipeSource;
  /** Position among the sources of its slice. */
  readonly position: number;
  readonly model: Model;
  readonly entry: TensorEntry;
}

/** A tensor of the result. */
export interface PlannedTensor {
  readonly name: string;
  /** The base or the first model comes first. */
  readonly inputs: readonly PlannedInput[];
  readonly slice: RecipeSlice;
  /** Where in the layers of its slice it is: from 0 to 1. */
  readonly t: number;
}

/** The tensors of the result. */
export interface Plan {
  readonly tensors: readonly PlannedTensor[];
  /** What was left out, as texts. */
  readonly warnings: readonly string[];
  /** For each layer, which one of the base it is, or of the first source; null when layers are those of the base. */
  readonly layers: readonly number[] | null;
}

/** Advice for tensors that only some models have. */
const SKIP_UNMATCHED: Advice = {
  option: 'unmatched',
  text: "pass unmatched: 'skip' to leave them out",
};

/** Names that an error or a warning lists of a model. */
const LISTED_NAMES = 5;

/** The parts of a model that a tensor may be in. */
interface Part {
  readonly slice: RecipeSlice;
  /** Maps a name of the result to the name in a source; null for one of another part. */
  nameIn(name: string, source: RecipeSource): string;
  readonly names: readonly string[];
  readonly t: number;
}

/**
 * Plans a merge.
 *
 * @throws SafetensorsError `SAFETENSORS_MERGE_UNMATCHED` for tensors that a model lacks,
 *   `SAFETENSORS_INVALID_RECIPE` for layers that it lacks, `SAFETENSORS_MERGE_UNSUPPORTED`
 */
export function planMerge(
  recipe: Recipe,
  models: readonly Model[],
  unmatched: 'error' | 'skip',
): Plan {
  const planner = new Planner(recipe, models);
  const plan = planner.plan();
  const { problems } = planner;
  if (problems.length === 0) return plan;
  if (unmatched === 'skip' || recipe.method.isPartial === true) {
    return { ...plan, warnings: problems };
  }
  const message = `${problems.join('; ')}; ${SKIP_UNMATCHED.text}`;
  throw new SafetensorsError('SAFETENSORS_MERGE_UNMATCHED', message, {
    path: planner.problemPath,
    advice: [SKIP_UNMATCHED],
  });
}

class Planner {
  readonly problems: string[] = [];
  problemPath: string | undefined;
  readonly #recipe: Recipe;
  readonly #models: readonly Model[];
  readonly #layers = new Map<Model, Layers>();

  constructor(recipe: Recipe, models: readonly Model[]) {
    this.#recipe = recipe;
    this.#models = models;
  }

  plan(): Plan {
    const { slices } = this.#recipe;
    const [only] = slices as [RecipeSlice];
    const tensors: PlannedTensor[] = [];
    const lacking = new Map<Model, string[]>();
    const parts = [...(only.length === null ? this.#wholeModels(only) : this.#sliced())];
    for (const { slice, names, nameIn, t } of parts) {
      for (const name of names) {
        const inputs = this.#inputsOf(slice, (source) => nameIn(name, source), lacking);
        if (inputs !== null) tensors.push({ name, inputs, slice, t });
      }
    }
    for (const [model, names] of lacking) {
      this.problemPath ??= model.handle.path;
      this.problems.push(`${modelLabel(model)} lacks ${quoteNames(names, LISTED_NAMES)}`);
    }
    this.#reportExtras(tensors, only.length === null ? null : parts);
    const layers = only.length === null ? null : slices.flatMap((slice) => this.#layersIn(slice));
    return { tensors, warnings: [], layers };
  }

  /** The layers of a slice in the base, or in the first source where the base is none. */
  #layersIn({ sources, length }: RecipeSlice): number[] {
    const { base } = this.#recipe;
    const [reference] = sources as [RecipeSource];
    const { first } = sources.find(({ model }) => model === base) ?? reference;
    return Array.from({ length: length as number }, (_, i) => first + i);
  }

  /** The inputs of a tensor; null when nothing is left to merge. */
  #inputsOf(
    slice: RecipeSlice,
    nameIn: (source: RecipeSource) => string,
    lacking: Map<Model, string[]>,
  ): readonly PlannedInput[] | null {
    const inputs: PlannedInput[] = [];
    for (const [position, source] of slice.sources.entries()) {
      const model = this.#model(source);
      const name = nameIn(source);
      const entry = entryOf(model, name);
      if (entry !== undefined) inputs.push({ source, position, model, entry });
      else addTo(lacking, model, name);
    }
    const needsFirst = this.#recipe.method.base === 'first';
    return inputs.length === 0 || (needsFirst && inputs[0]?.position !== 0) ? null : inputs;
  }

  /** Lists tensors that only models after the first have: they are in no result. */
  #reportExtras(tensors: readonly PlannedTensor[], parts: readonly Part[] | null): void {
    const used = new Map<Model, Set<string>>(this.#models.map((model) => [model, new Set()]));
    for (const { inputs } of tensors) {
      for (const { model, entry } of inputs) used.get(model)?.add(entry.name);
    }
    const inLayers = new Map<Model, Set<string>>();
    for (const { sources, length } of this.#recipe.slices) {
      for (const source of sources) {
        const layers = inLayers.get(this.#model(source)) ?? new Set();
        for (let i = 0; i < (length ?? 0); i++) layers.add(String(source.first + i));
        inLayers.set(this.#model(source), layers);
      }
    }
    for (const [model, layers] of inLayers) {
      const extras = [...model.entries.keys()].filter((name) => {
        if (used.get(model)?.has(name) === true) return false;
        const layer = layerOf(name);
        return parts === null || (layer !== null && layers.has(String(layer.index)));
      });
      if (extras.length === 0) continue;
      this.problemPath ??= model.handle.path;
      this.problems.push(`only ${modelLabel(model)} has ${quoteNames(extras, LISTED_NAMES)}`);
    }
  }

  /** All tensors of the first source, and heads of others. */
  *#wholeModels(slice: RecipeSlice): Generator<Part> {
    const models = slice.sources.map((source) => this.#model(source));
    const [reference] = models as [Model];
    const names = new Set(reference.entries.keys());
    if (this.#recipe.method.isPartial !== true) {
      for (const { entries } of models.slice(1)) {
        for (const name of entries.keys()) {
          // A head in the file of one model, and not in that of another, which ties it to its embeddings.
          if (!names.has(name) && entryOf(reference, name) !== undefined) names.add(name);
        }
      }
    }
    const counts = layerCounts(names);
    for (const name of names) {
      const layer = layerOf(name);
      const count = layer === null ? 0 : (counts.get(layer.list) as number);
      const t = layer === null ? 0 : count === 1 ? 1 : layer.index / (count - 1);
      yield { slice, names: [name], nameIn: (one) => one, t };
    }
  }

  /** What comes before the layers from the first slice, the layers of all slices, and the rest from the last slice. */
  *#sliced(): Generator<Part> {
    const { slices } = this.#recipe;
    const [first, last] = [slices[0], slices.at(-1)] as [RecipeSlice, RecipeSlice];
    const list = this.#listOfLayers();
    const others = (slice: RecipeSlice, isWanted: (name: string) => boolean): Part => {
      const { sources } = slice;
      const names = new Set(
        sources
          .flatMap((source) => [...this.#model(source).entries.keys()])
          .filter((name) => {
            return layerOf(name) === null && isWanted(name);
          }),
      );
      return { slice, names: [...names], nameIn: (name) => name, t: 0 };
    };
    yield others(first, isBeforeLayers);
    let layer = 0;
    for (const slice of slices) {
      const { sources } = slice;
      const length = slice.length as number;
      for (const source of sources) this.#requireLayers(source, length);
      for (let i = 0; i < length; i++, layer++) {
        const prefix = `${list}${layer}`;
        const [reference] = sources as [RecipeSource];
        const rests = this.#layersOf(reference).tensors.get(reference.first + i) ?? [];
        const names = rests.map((rest) => prefix + rest);
        yield {
          slice,
          names,
          nameIn: (name, { first }) => `${list}${first + i}${name.slice(prefix.length)}`,
          t: length === 1 ? 1 : i / (length - 1),
        };
      }
    }
    yield others(last, (name) => !isBeforeLayers(name));
  }

  /** What names of layers begin with, in all models. */
  #listOfLayers(): string {
    const { slices, path } = this.#recipe;
    const lists = new Set(
      slices.flatMap(({ sources }) =>
        sources.flatMap((source) => [...this.#layersOf(source).lists]),
      ),
    );
    const [list, ...others] = lists;
    if (list !== undefined && others.length === 0) return list;
    const found = list === undefined ? 'no layers' : `several lists: ${quoteNames([...lists])}`;
    const message = `slices need one list of layers, found ${found}`;
    throw new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, { path });
  }

  #requireLayers(source: RecipeSource, length: number): void {
    const { tensors } = this.#layersOf(source);
    const { first } = source;
    let end = first;
    while (end < first + length && tensors.has(end)) end++;
    if (end === first + length) return;
    const count = [...tensors.keys()].reduce((max, index) => Math.max(max, index + 1), 0);
    const found = end >= count ? `has ${count} layers` : `has no layer ${end}`;
    const message = `${modelLabel(this.#model(source))} ${found}, the recipe lists [${first}, ${first + length})`;
    throw new SafetensorsError('SAFETENSORS_INVALID_RECIPE', message, { path: this.#recipe.path });
  }

  #layersOf(source: RecipeSource): Layers {
    const model = this.#model(source);
    const layers = this.#layers.get(model) ?? layersIn(model.entries.keys());
    this.#layers.set(model, layers);
    return layers;
  }

  #model({ model }: RecipeSource): Model {
    return this.#models[model] as Model;
  }
}

/** The tensor of a model, or the one that its head is tied to. */
function entryOf({ entries, inputEmbeddings }: Model, name: string): TensorEntry | undefined {
  const tied =
    isHead(name) && inputEmbeddings !== undefined ? entries.get(inputEmbeddings) : undefined;
  return entries.get(name) ?? tied;
}

/** Tensors of a model that are in layers. */
interface Layers {
  /** What their names begin with. */
  readonly lists: ReadonlySet<string>;
  /** What follows the layer in their names, by layers. */
  readonly tensors: ReadonlyMap<number, readonly string[]>;
}

function layersIn(names: Iterable<string>): Layers {
  const lists = new Set<string>();
  const tensors = new Map<number, string[]>();
  for (const name of names) {
    const layer = layerOf(name);
    if (layer === null) continue;
    lists.add(layer.list);
    addTo(tensors, layer.index, layer.rest);
  }
  return { lists, tensors };
}

function addTo<Key>(lists: Map<Key, string[]>, key: Key, item: string): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

/** Numbers of layers, by what their names begin with. */
export function layerCounts(names: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) {
    const layer = layerOf(name);
    if (layer === null) continue;
    counts.set(layer.list, Math.max(counts.get(layer.list) ?? 0, layer.index + 1));
  }
  return counts;
}
