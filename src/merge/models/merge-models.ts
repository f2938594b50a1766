/** Merges models: the parts of the view. */

import { argumentTypeError } from '../../errors/arguments.js';
import { isUrl } from '../../errors/brand-checks.js';
import type { SiblingFile } from '../../file/source/facts.js';
import { VIEW_OF, type ViewParts } from '../../file/source/view.js';
import type { Dtype } from '../../header/dtype.js';
import { TORCH_DTYPES } from '../../header/dtype-names.js';
import { castConfig } from '../../quantized/plan/plain-config.js';
import { isCastSource } from '../../tensor/float32/cast.js';
import { mergeAdaptersWith } from '../adapters/merge-adapters.js';
import { isHandle, type MergeModelsOptions, requireMergeOptions } from '../adapters/options.js';
import {
  type MergeSource,
  modelName,
  type OpenMergeSource,
  type OwnMergeSource,
  requireDequantized,
} from '../base.js';
import { isOfVocabulary } from './layers.js';
import type { MergeMethod } from './methods/methods.js';
import type { Model } from './model.js';
import { planMerge } from './plan.js';
import { parseRecipe, type Recipe } from './recipe.js';
import { MERGE_KEY, recordOf } from './record.js';
import { type DrawFor, drawWith, resultTensor } from './tensors.js';

/** A tensor of a merged model, as data: an item of `changes`. */
export interface ModelChange {
  readonly name: string;
  /** The method, or `copied` for a tensor that is that of the first model. */
  readonly kind: MergeMethod | 'copied';
}

/** What `mergeModels` returns besides the checkpoint. */
export interface MergedModelFacts {
  /** All tensors of the result, and how each was made. */
  readonly changes: readonly ModelChange[];
  /** What was left out, as texts. */
  readonly warnings: readonly string[];
}

/** What a runtime has for recipes. */
export interface RecipeRuntime {
  readonly open: OpenMergeSource;
  /** Reads a recipe from a file. Sources in it that are paths are relative to it. */
  readonly readRecipe: (path: string | URL, signal: AbortSignal | undefined) => Promise<RecipeFile>;
}

/** A recipe from a file. */
export interface RecipeFile {
  readonly path: string;
  readonly recipe: unknown;
  /** Returns a source as `open` takes it. */
  resolve(source: string): string;
}

/** As the public `mergeModels`. `draw` is for tests: what DARE draws. */
export async function mergeModelsWith(
  runtime: RecipeRuntime,
  given: unknown,
  options: MergeModelsOptions = {},
  draw?: DrawFor,
): Promise<MergeSource & MergedModelFacts> {
  requireMergeOptions(options);
  const { signal, unmatched = 'error', nonFinite = 'error' } = options;
  const isPath = typeof given === 'string' || isUrl(given);
  if (!isPath && (typeof given !== 'object' || given === null || Array.isArray(given))) {
    throw argumentTypeError('recipe', 'an object, or the path of a recipe', given);
  }
  const file = isPath ? await runtime.readRecipe(given, signal) : null;
  const recipe = parseRecipe(file?.recipe ?? given, file?.path);
  const opened: OwnMergeSource[] = [];
  const close = (): void => {
    for (const handle of opened.splice(0)) handle.close();
  };
  try {
    const models: Model[] = [];
    for (const source of recipe.sources) {
      const resolved = typeof source === 'string' && file !== null ? file.resolve(source) : source;
      models.push(await openModel(resolved, runtime.open, opened, signal));
    }
    const mustBeFinite = nonFinite === 'error';
    const rules = { unmatched, mustBeFinite, draw: draw ?? drawWith(recipe.seed) };
    return await merged(recipe, models, { ...rules, close, signal });
  } catch (error) {
    close();
    throw error;
  }
}

async function openModel(
  source: unknown,
  open: OpenMergeSource,
  opened: OwnMergeSource[],
  signal: AbortSignal | undefined,
): Promise<Model> {
  let handle = source as OwnMergeSource;
  if (!isHandle(source)) {
    handle = (await open(source as never, { signal })) as OwnMergeSource;
    opened.push(handle);
  }
  const [problem] = handle.problems;
  if (problem !== undefined) throw problem;
  await requireDequantized(handle as unknown as MergeSource, signal);
  const entries = new Map((await handle.tensors({ signal })).map((entry) => [entry.name, entry]));
  return { handle, name: modelName(handle.path), entries };
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
): Promise<MergeSource & MergedModelFacts> {
  const { tensors, warnings, layerCount } = planMerge(recipe, models, rules.unmatched);
  const [first] = recipe.slices[0]?.sources ?? [];
  const base = models[recipe.base ?? first?.model ?? 0] as Model;
  // Only a remote checkpoint has views that wait for what they read.
  const anchor = (models.find(({ handle }) => !handle.local) ?? base).handle;
  const results = tensors.map((planned) => {
    return resultTensor(planned, { recipe, anchor, vocabulary: null, ...rules });
  });
  const views = results.map(({ view }) => view);
  const counts = new Map<string, number>();
  if (layerCount !== null) for (const key of LAYER_KEYS) counts.set(key, layerCount);
  const vocabulary = views.find(({ entry: { name, shape } }) => isOfVocabulary(name, shape))?.entry;
  const [size] = vocabulary?.shape ?? [];
  const [ownSize] = base.entries.get(vocabulary?.name ?? '')?.shape ?? [];
  if (size !== undefined && size !== ownSize) counts.set('vocab_size', size);
  const dtypes = new Set(views.map(({ entry }) => entry.dtype).filter(isCastSource));
  const parts: ViewParts = {
    tensors: views,
    metadata: new Map([
      ...(base.handle.metadata ?? []),
      [MERGE_KEY, await recordOf(recipe, models, signal)],
    ]),
    problems: [],
    quantMethod: null,
    sibling: async (name, signal) => {
      const file = await base.handle.sibling(name, { signal });
      return file && name === 'config.json' ? fittedConfig(file, dtypes, counts) : file;
    },
    close,
  };
  const facts: MergedModelFacts = {
    changes: Object.freeze(
      results.map(({ view, isMerged }) =>
        Object.freeze({
          name: view.entry.name,
          kind: isMerged ? recipe.methodName : ('copied' as const),
        }),
      ),
    ),
    warnings: Object.freeze([...warnings, ...results.flatMap(({ warnings }) => warnings)]),
  };
  return Object.assign(anchor[VIEW_OF](parts) as MergeSource & object, facts);
}

/** Names of the number of layers. */
const LAYER_KEYS = ['num_hidden_layers', 'n_layer', 'n_layers', 'num_layers'];

/** The configuration with the dtype, the number of layers and the size of the vocabulary of the result. */
function fittedConfig(
  file: SiblingFile,
  dtypes: ReadonlySet<Dtype>,
  counts: ReadonlyMap<string, number>,
): SiblingFile {
  const { path, bytes } = file;
  if (bytes.length < file.byteLength) return file;
  const [dtype, other] = dtypes;
  const name = dtype !== undefined && other === undefined ? (TORCH_DTYPES[dtype] ?? null) : null;
  const { contents } = castConfig(bytes, name, path, counts);
  const copy = contents.slice() as Uint8Array<ArrayBuffer>;
  return Object.freeze({ path, bytes: copy, byteLength: copy.length });
}
