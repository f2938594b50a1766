/** Merges models: the parts of the view. */

import { argumentTypeError } from '../../errors/arguments.js';
import { isUrl } from '../../errors/brand-checks.js';
import { SafetensorsError } from '../../errors/errors.js';
import type { SiblingFile } from '../../file/source/tensor-info.js';
import { VIEW_OF, type ViewParts, type ViewTensor } from '../../file/source/view.js';
import { TORCH_DTYPES } from '../../header/dtype-names.js';
import { type ConfigChanges, castConfig } from '../../quantized/plan/dequantized-config.js';
import { isCastSource } from '../../tensor/float32/cast.js';
import type { Tensor } from '../../tensor/tensor.js';
import { unsupportedMerge } from '../adapters/errors.js';
import { isAdapter } from '../adapters/keys.js';
import { mergeAdaptersWith } from '../adapters/merge-adapters.js';
import { isHandle, type MergeModelsOptions, requireMergeOptions } from '../adapters/options.js';
import {
  type MergeSource,
  modelName,
  type OpenMergeSource,
  type OwnMergeSource,
  requireDequantized,
} from '../base.js';
import { recipeError } from './errors.js';
import { unusedFilters } from './filters.js';
import { inputEmbeddings, isOfVocabulary } from './layers.js';
import type { MergeMethod } from './methods/methods.js';
import { type Model, modelLabel } from './model.js';
import { layerCounts, planMerge } from './plan.js';
import { parseRecipe, type Recipe } from './recipe.js';
import { MERGE_KEY, recordOf } from './record.js';
import { type DrawFor, drawWith, resultTensor } from './tensors.js';
import { isOfTokenizer, Vocabulary } from './vocabulary.js';

/** A tensor of a merged model, as data: an item of `changes`. */
export interface ModelChange {
  /** The name of the tensor. */
  readonly name: string;
  /** The method, or `copied` for a tensor that is that of the first model. */
  readonly kind: MergeMethod | 'copied';
}

/** What `mergeModels` returns besides the checkpoint. */
export interface MergedModelInfo {
  /** All tensors of the result, and the method of each. */
  readonly changes: readonly ModelChange[];
  /** What was left out, as texts. */
  readonly warnings: readonly string[];
}

/** What a runtime has for recipes. */
export interface RecipeRuntime {
  readonly open: OpenMergeSource;
  /** Whether there is anything at a path. */
  readonly exists: (path: string) => boolean;
  /** Reads a recipe from a file. Sources in it that are paths are relative to it. */
  readonly readRecipe: (path: string | URL, signal: AbortSignal | undefined) => Promise<RecipeFile>;
}

/** A recipe from a file. */
export interface RecipeFile {
  readonly path: string;
  readonly recipe: unknown;
  /** Returns a source as `open` takes it. */
  resolve(source: string): string;
  /** Makes the error of opening a source name the recipe and the key, if there is nothing at its path. */
  explain(error: unknown, key: string): unknown;
}

/** A merged model, and where the files next to its weights come from. */
export interface MergedModel {
  readonly view: MergeSource & MergedModelInfo;
  /** The model that the configuration is from. */
  readonly base: Pick<Model, 'source' | 'handle'>;
  /** The model that the tokenizer is from. */
  readonly tokenizer: Pick<Model, 'source' | 'handle'>;
  /** Files that the view has other contents of than their folder. */
  readonly changedFiles: readonly string[];
  /** The local tensor that a merged one is a change of: that of the base, or of the first model with it; else null. */
  firstOf(name: string): Tensor | null;
}

/** As the public `mergeModels`. `draw` is for tests: what DARE draws. */
export async function mergeModelsWith(
  runtime: RecipeRuntime,
  given: unknown,
  options: MergeModelsOptions = {},
  draw?: DrawFor,
): Promise<MergedModel> {
  requireMergeOptions(options);
  const { signal, unmatched = 'error', nonFinite = 'error' } = options;
  const isPath = typeof given === 'string' || isUrl(given);
  if (!isPath && (typeof given !== 'object' || given === null || Array.isArray(given))) {
    throw argumentTypeError('recipe', 'an object, or the path of a recipe', given);
  }
  const file = isPath ? await runtime.readRecipe(given, signal) : null;
  const recipe = parseRecipe(file === null ? given : file.recipe, file?.path);
  const opened: OwnMergeSource[] = [];
  const close = (): void => {
    for (const handle of opened.splice(0)) handle.close();
  };
  try {
    const models: Model[] = [];
    const resolve = (source: string): string => file?.resolve(source) ?? source;
    for (const [i, source] of recipe.sources.entries()) {
      try {
        models.push(await openModel(source, { recipe, resolve, opened, runtime, signal }));
      } catch (error) {
        throw file?.explain(error, recipe.keys[i] as string) ?? error;
      }
    }
    const mustBeFinite = nonFinite === 'error';
    const rules = { unmatched, mustBeFinite, draw: draw ?? drawWith(recipe.seed) };
    return await merged(recipe, models, { ...rules, close, signal });
  } catch (error) {
    close();
    throw error;
  }
}

/** How models are opened. */
interface Opening {
  readonly recipe: Recipe;
  readonly resolve: (source: string) => string;
  readonly runtime: RecipeRuntime;
  /** Gets what is opened, to be closed. */
  readonly opened: OwnMergeSource[];
  readonly signal: AbortSignal | undefined;
}

async function openModel(
  given: unknown,
  { recipe, resolve, runtime, opened, signal }: Opening,
): Promise<Model> {
  const { open, exists } = runtime;
  const isText = typeof given === 'string';
  const hasAdapter = isText && recipe.isMergekits && given.includes('+') && !exists(resolve(given));
  const [path, adapter] = hasAdapter ? withAdapter(given, recipe.path) : [given, undefined];
  const source = isText ? resolve(path as string) : given;
  let handle = source as OwnMergeSource;
  if (!isHandle(source)) {
    handle = (await open(source as never, { signal })) as OwnMergeSource;
    opened.push(handle);
  }
  const [problem] = handle.problems;
  if (problem !== undefined) throw problem;
  await requireDequantized(handle as unknown as MergeSource, signal);
  const name = modelName(handle.path);
  if (adapter !== undefined) {
    const base = handle as unknown as MergeSource;
    const view = await mergeAdaptersWith(open, base, [resolve(adapter)], { signal });
    handle = view as unknown as OwnMergeSource;
  }
  const entries = new Map((await handle.tensors({ signal })).map((entry) => [entry.name, entry]));
  if (isAdapter(handle.path, [...entries.keys()])) {
    const message = `${modelLabel({ name })} is an adapter; merge it into its base first`;
    throw unsupportedMerge(message, { path: handle.path });
  }
  return {
    handle,
    source,
    name,
    entries,
    inputEmbeddings: inputEmbeddings(entries.keys()),
    isSingleFile: [...entries.keys()].some((key) => key.startsWith('model.diffusion_model.')),
  };
}

/** Splits mergekit's form of a model with an adapter. */
function withAdapter(text: string, path: string | undefined): readonly [string, string] {
  const parts = text.split('+');
  if (parts.length === 2 && !parts.includes('')) return parts as [string, string];
  const message = `${JSON.stringify(text)} is neither a path nor MODEL+ADAPTER; merge other adapters first`;
  throw recipeError(message, path);
}

interface MergeRules {
  readonly unmatched: 'error' | 'skip';
  readonly mustBeFinite: boolean;
  readonly draw: DrawFor;
  readonly close: () => void;
  readonly signal: AbortSignal | undefined;
}

async function merged(
  recipe: Recipe,
  models: readonly Model[],
  { close, signal, ...rules }: MergeRules,
): Promise<MergedModel> {
  const { tensors, warnings, layers } = planMerge(recipe, models, rules.unmatched);
  const [first] = recipe.slices[0]?.sources ?? [];
  const base = models[recipe.base ?? first?.model ?? 0] as Model;
  const { tokenizer } = recipe;
  const chosen = typeof tokenizer === 'number' ? (models[tokenizer] as Model) : base;
  const from = { base: recipe.base === null ? null : base, chosen, isUnion: tokenizer === 'union' };
  const vocabulary = tokenizer === null ? null : await Vocabulary.read(models, from, signal);
  // Only a remote checkpoint has views that wait for what they read.
  const anchor = (models.find(({ handle }) => !handle.local) ?? base).handle;
  const results = tensors.map((planned) => {
    return resultTensor(planned, { recipe, anchor, vocabulary, ...rules });
  });
  requireShared(recipe, models, new Set(results.flatMap((result) => result.models)));
  const views = results.map(({ view }) => view);
  const fit = configFit(views, base, layers);
  const parts: ViewParts = {
    tensors: views,
    metadata: new Map([
      ...(base.handle.metadata ?? []),
      [MERGE_KEY, await recordOf(recipe, models, signal)],
    ]),
    problems: [],
    quantMethod: null,
    sibling: async (name, signal) => {
      const { handle } = isOfTokenizer(name) ? chosen : base;
      const file = await handle.sibling(name, { signal });
      if (file === undefined) return undefined;
      const { path, bytes, byteLength } = file;
      if (name === 'tokenizer.json' && vocabulary?.contents != null) {
        return siblingOf(path, vocabulary.contents);
      }
      if (name !== 'config.json' || bytes.length < byteLength) return file;
      return siblingOf(path, castConfig(bytes, fit.dtype, path, fit).contents);
    },
    close,
  };
  const changes = results.map(({ view, isMerged }): ModelChange => {
    const kind = isMerged ? recipe.methodName : 'copied';
    return Object.freeze({ name: view.entry.name, kind });
  });
  const facts: MergedModelInfo = {
    changes: Object.freeze(changes),
    warnings: Object.freeze([
      ...warnings,
      ...unusedFilters(recipe, tensors),
      ...results.flatMap(({ warnings }) => warnings),
    ]),
  };
  const view = Object.assign(anchor[VIEW_OF](parts) as MergeSource & object, facts);
  const changedFiles = ['config.json', ...(vocabulary?.contents == null ? [] : ['tokenizer.json'])];
  const firsts = new Map(tensors.map(({ name, inputs }) => [name, inputs[0]]));
  const firstOf = (name: string): Tensor | null => {
    const first = firsts.get(name);
    if (first?.model.handle.local !== true) return null;
    return first.model.handle.getTensor(first.entry.name) as Tensor;
  };
  return { view, base, tokenizer: chosen, changedFiles, firstOf };
}

/** Rejects a model that is not part of the result, whatever is left out. */
function requireShared(
  { slices }: Recipe,
  models: readonly Model[],
  used: ReadonlySet<Model>,
): void {
  const listed = slices.flatMap(({ sources }) => sources.map(({ model }) => models[model]));
  const unused = listed.find((model) => model !== undefined && !used.has(model));
  if (unused === undefined) return;
  const message = `${modelLabel(unused)} has no tensor in common with the others; pass models of one architecture`;
  const { path } = unused.handle;
  throw new SafetensorsError('SAFETENSORS_MERGE_UNMATCHED', message, { path });
}

function siblingOf(path: string, contents: Uint8Array): SiblingFile {
  const bytes = new Uint8Array(contents);
  return Object.freeze({ path, bytes, byteLength: bytes.length });
}

/** Names of the number of layers. */
const LAYER_KEYS = ['num_hidden_layers', 'n_layer', 'n_layers', 'num_layers'];

/** What the configuration lists of the weights. */
interface ConfigFit extends ConfigChanges {
  /** Torch's name of the dtype; null when there are several. */
  readonly dtype: string | null;
}

/** Dtype, layers and size of the vocabulary of the result. */
function configFit(
  views: readonly ViewTensor[],
  base: Model,
  order: readonly number[] | null,
): ConfigFit {
  const counts = new Map<string, number>();
  if (order !== null) for (const key of LAYER_KEYS) counts.set(key, order.length);
  // Slices need models with one list of layers.
  const [count = 0] = layerCounts(base.entries.keys()).values();
  const rows = views.find(({ entry: { name, shape } }) => isOfVocabulary(name, shape))?.entry;
  const [size] = rows?.shape ?? [];
  const [ownSize] = base.entries.get(rows?.name ?? '')?.shape ?? [];
  if (size !== undefined && size !== ownSize) counts.set('vocab_size', size);
  const dtypes = new Set(views.map(({ entry }) => entry.dtype).filter(isCastSource));
  const [only, other] = dtypes;
  const dtype = only === undefined || other !== undefined ? null : (TORCH_DTYPES[only] ?? null);
  return { dtype, counts, layers: order === null ? null : { count, order } };
}
