/** Recipes of merges: the library's own form, and mergekit's. */

import { nearHint } from '../../errors/near-names.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import type { Dtype } from '../../header/dtype.js';
import { dtypeOfOtherName, TORCH_DTYPES } from '../../header/dtype-names.js';
import { isCastSource } from '../../tensor/float32/cast.js';
import type { MergeDtype } from '../values.js';
import { invalidRecipe, recipeError } from './errors.js';
import { METHODS, type MergeMethod, type Method } from './methods/methods.js';
import { type Parameters, type ParameterValue, parseParameter } from './parameters.js';

/** Parameters of single models; in a slice or a recipe they are those of all models without their own. */
export interface ModelParameters {
  /** The share of the model. */
  readonly weight?: ParameterValue | undefined;
  /** The share of its changes that is kept, above 0; 1 by default. */
  readonly density?: ParameterValue | undefined;
  /** What the model is multiplied by; 1 by default. */
  readonly scale?: ParameterValue | undefined;
}

/** Parameters of methods. Each method takes its own; see the table of `mergeModels`. */
export interface MergeParameters extends ModelParameters {
  /** From 0, the base, to 1, the other model. */
  readonly t?: ParameterValue | undefined;
  /** The share of the second model, or of the difference. */
  readonly alpha?: ParameterValue | undefined;
  /** What the sum of changes is multiplied by; 1 by default. */
  readonly lambda?: ParameterValue | undefined;
  /** Whether the sum is divided by that of the weights. */
  readonly normalize?: ParameterValue | undefined;
  /** Whether changes that are kept grow to the sum of all. */
  readonly rescale?: ParameterValue | undefined;
  /** Whether rows are merged one by one. */
  readonly filterWise?: ParameterValue | undefined;
}

/** A model of a recipe, with its parameters. */
export interface ModelInput<Source> extends ModelParameters {
  /** Anything that `open` takes, except for a file descriptor; or an open checkpoint. */
  readonly source: Source | TensorSource;
  /** In slices: the first layer, and the one after the last. */
  readonly layers?: readonly [first: number, end: number] | undefined;
}

/** Layers of the result, and the models whose layers they are merged from. */
export interface SliceInput<Source> extends MergeParameters {
  /** The models, with as many layers each. */
  readonly sources: readonly ModelInput<Source>[];
  /** The base of this slice. */
  readonly base?: Source | TensorSource | undefined;
}

/** A merge: the library's form of a recipe. */
export interface MergeRecipe<Source> extends MergeParameters {
  /** How the models are merged. */
  readonly method: MergeMethod;
  /** The model whose configuration is copied, and from which methods with task vectors measure changes. */
  readonly base?: Source | TensorSource | undefined;
  /** The models, all layers of each. Give either these or `slices`. */
  readonly models?: readonly ModelInput<Source>[] | undefined;
  /** Layers from several models, one slice after the other. */
  readonly slices?: readonly SliceInput<Source>[] | undefined;
  /** The dtype of merged weights; that of the inputs by default. */
  readonly dtype?: Dtype | undefined;
  /** The same, for recipes that list both; this one counts. */
  readonly outDtype?: Dtype | undefined;
  /** Whose vocabulary the result gets: that of the base, the union of all, or that of a model. */
  readonly tokenizer?: 'base' | 'union' | Source | TensorSource | undefined;
  /** Seed of what `dare_linear` and `dare_ties` draw; 0 by default. */
  readonly seed?: number | undefined;
}

/** A model in a parsed recipe. */
export interface RecipeSource {
  /** Position in `sources` of the recipe. */
  readonly model: number;
  /** First layer. */
  readonly first: number;
  readonly parameters: Parameters;
}

/** Layers in a parsed recipe. */
export interface RecipeSlice {
  /** With the base as the first one, if the method needs it. */
  readonly sources: readonly RecipeSource[];
  /** Number of layers; null for all. */
  readonly length: number | null;
  readonly parameters: Parameters;
}

/** A parsed recipe. */
export interface Recipe {
  readonly path: string | undefined;
  /** Whether it has mergekit's keys. */
  readonly isMergekits: boolean;
  readonly methodName: MergeMethod;
  readonly method: Method;
  /** All models, as given. */
  readonly sources: readonly unknown[];
  /** Where each is listed: `models[1].model`. */
  readonly keys: readonly string[];
  readonly base: number | null;
  readonly slices: readonly RecipeSlice[];
  readonly parameters: Parameters;
  readonly dtype: MergeDtype | null;
  readonly tokenizer: 'base' | 'union' | number | null;
  readonly seed: number;
}

type Level = 'recipe' | 'slice' | 'model' | 'source';

/** Keys by level: the library's, and mergekit's for the same. Null where there is none. */
const KEYS: Readonly<Record<Level, Readonly<Record<string, string | null>>>> = {
  recipe: {
    method: 'merge_method',
    base: 'base_model',
    models: 'models',
    slices: 'slices',
    dtype: 'dtype',
    outDtype: 'out_dtype',
    tokenizer: 'tokenizer_source',
    tokenizerOptions: 'tokenizer',
    seed: 'seed',
  },
  slice: { sources: 'sources', base: 'base_model' },
  model: { source: 'model' },
  source: { source: 'model', layers: 'layer_range' },
};

/** Keys of the method, in both forms. */
const METHOD_KEYS = ['method', 'merge_method'];

/** mergekit methods for which the nearest supported name would be wrong. */
const OTHER_METHODS: readonly unknown[] = ['nuslerp', 'della_linear'];

/** Names of the dtypes that merged weights may have. */
const DTYPE_NAMES = Object.entries(TORCH_DTYPES)
  .filter(([dtype]) => isCastSource(dtype as Dtype))
  .flat();

const OTHER_FORM = "the recipe mixes the library's keys with those of mergekit";

/** Parsed members of an object in a recipe. */
interface Members {
  readonly fields: ReadonlyMap<string, unknown>;
  readonly parameters: Parameters;
}

/**
 * Parses a recipe.
 *
 * @param path the file that it is from, for errors
 * @throws SafetensorsError `SAFETENSORS_INVALID_RECIPE`
 */
export function parseRecipe(recipe: unknown, path: string | undefined): Recipe {
  return new RecipeParser(path, recipe).parse();
}

class RecipeParser {
  readonly #path: string | undefined;
  readonly #recipe: object;
  readonly #isMergekits: boolean;
  readonly #methodName: MergeMethod;
  readonly #sources: unknown[] = [];
  readonly #keys: string[] = [];

  constructor(path: string | undefined, recipe: unknown) {
    this.#path = path;
    this.#recipe = this.#object(recipe, '');
    const { method, merge_method: mergekits } = recipe as Readonly<Record<string, unknown>>;
    this.#isMergekits = mergekits !== undefined;
    if (this.#isMergekits && method !== undefined) {
      this.#fail(`${OTHER_FORM}; remove either method or merge_method`);
    }
    const name = this.#isMergekits ? mergekits : method;
    if (typeof name !== 'string' || !Object.hasOwn(METHODS, name)) {
      const key = this.#isMergekits ? 'merge_method' : 'method';
      if (name === undefined) this.#rejectMisspeltMethodKey();
      const names = Object.keys(METHODS);
      const hint = OTHER_METHODS.includes(name) ? '' : nearHint(name, names);
      throw invalidRecipe(`one of ${names.join(', ')}`, { key, path }, name, hint);
    }
    this.#methodName = name as MergeMethod;
  }

  /** Throws if a misspelt key stands in for the missing key of the method. */
  #rejectMisspeltMethodKey(): void {
    if (METHOD_KEYS.some((key) => Object.hasOwn(this.#recipe, key))) return;
    for (const key of Object.keys(this.#recipe)) {
      const hint = nearHint(key, METHOD_KEYS);
      if (hint !== '') this.#fail(`${key} is not supported${hint}`);
    }
  }

  parse(): Recipe {
    const { fields, parameters } = this.#members(this.#recipe, 'recipe', '');
    const [models, slices] = [fields.get('models'), fields.get('slices')];
    if ((models === undefined) === (slices === undefined)) {
      this.#fail('the recipe needs either models or slices');
    }
    const base = this.#model(fields.get('base'), this.#keyOf('recipe', 'base'));
    return {
      path: this.#path,
      isMergekits: this.#isMergekits,
      methodName: this.#methodName,
      method: METHODS[this.#methodName],
      base,
      slices:
        slices === undefined
          ? [this.#allLayers(models, base)]
          : this.#list(slices, 'slices').map((slice, i) =>
              this.#slice(slice, base, `slices[${i}]`),
            ),
      parameters,
      dtype: this.#dtype(fields),
      tokenizer: this.#tokenizer(fields, base),
      seed: this.#seed(fields.get('seed')),
      sources: this.#sources,
      keys: this.#keys,
    };
  }

  #allLayers(models: unknown, base: number | null): RecipeSlice {
    const sources = this.#list(models, 'models').map((model, i) => {
      return this.#source(this.#members(model, 'model', `models[${i}]`), `models[${i}]`);
    });
    const parameters: Parameters = new Map();
    const unlisted = base === null ? null : { model: base, first: 0, parameters };
    return { sources: this.#inputs(sources, base, unlisted, 'models'), length: null, parameters };
  }

  #slice(slice: unknown, base: number | null, key: string): RecipeSlice {
    const { fields, parameters } = this.#members(slice, 'slice', key);
    const lengths = new Set<number>();
    const sources = this.#list(fields.get('sources'), `${key}.sources`).map((source, i) => {
      const at = `${key}.sources[${i}]`;
      const members = this.#members(source, 'source', at);
      const [first, end] = this.#layers(members.fields.get('layers'), at);
      lengths.add(end - first);
      return { ...this.#source(members, at), first };
    });
    const [length, other] = lengths;
    if (other !== undefined) this.#fail(`${key}: its sources have ${length} and ${other} layers`);
    const ownBase =
      this.#model(fields.get('base'), `${key}.${this.#keyOf('slice', 'base')}`) ?? base;
    const inputs = this.#inputs(sources, ownBase, null, `${key}.sources`);
    return { sources: inputs, length: length as number, parameters };
  }

  #source({ fields, parameters }: Members, key: string): RecipeSource {
    const own = this.#keyOf('model', 'source');
    const model = this.#model(fields.get('source'), `${key}.${own}`);
    if (model === null) this.#fail(`${key} has no ${own}`);
    return { model, first: 0, parameters };
  }

  /** Puts the base before all others, if the method needs it. */
  #inputs(
    sources: readonly RecipeSource[],
    base: number | null,
    unlisted: RecipeSource | null,
    key: string,
  ): readonly RecipeSource[] {
    const method = METHODS[this.#methodName];
    const isFirst = method.base === 'first';
    if (isFirst && base === null) this.#fail(`${this.#methodName} needs a base`);
    const first = isFirst ? (sources.find(({ model }) => model === base) ?? unlisted) : null;
    // The base may be among the sources once more, with other layers.
    const others = sources.filter((source) => source !== first);
    const [min, max] = method.models;
    if (others.length < min || others.length > max) {
      const count = min === max ? min : `at least ${min}`;
      const models = max === 1 ? 'model' : 'models';
      const besides = isFirst ? ' besides the base' : '';
      const expected = `${this.#methodName} takes ${count} ${models}${besides}`;
      this.#fail(`${key}: ${expected}, found ${others.length}`);
    }
    if (!isFirst) return others;
    if (first === null) this.#fail(`${this.#methodName} needs the base among ${key}`);
    return [first, ...others];
  }

  /** Position of a model among all; null for none. */
  #model(source: unknown, key: string): number | null {
    if (source == null) return null;
    // A number would be the descriptor of any file that the process has open.
    const isValid =
      this.#path === undefined ? typeof source !== 'number' : typeof source === 'string';
    if (!isValid) {
      const expected = 'a path, a URL or the id of a repository';
      const others = this.#path === undefined ? ', a Blob or an open checkpoint' : '';
      throw invalidRecipe(`${expected}${others}`, { key, path: this.#path }, source);
    }
    const known = this.#sources.findIndex((one) => placeOf(one) === placeOf(source));
    if (known !== -1) return known;
    this.#keys.push(key);
    return this.#sources.push(source) - 1;
  }

  #members(object: unknown, level: Level, key: string): Members {
    const fields = new Map<string, unknown>();
    const parameters = new Map<string, ReturnType<typeof parseParameter>>();
    const add = (name: string, value: unknown, at: string): void => {
      parameters.set(name, parseParameter(value, { key: at, path: this.#path }));
    };
    const { parameters: methodRules } = METHODS[this.#methodName];
    const rules = Object.keys(methodRules);
    const requireLevel = (name: string, at: string): void => {
      if (level === 'recipe' || level === 'slice' || methodRules[name]?.ofModel === true) return;
      this.#fail(`${at} has no effect on a single model; list ${name} for the whole recipe`);
    };
    for (const [given, value] of Object.entries(this.#object(object, key))) {
      if (value == null) continue;
      const at = key === '' ? given : `${key}.${given}`;
      const field = this.#field(given, level);
      if (field !== null) {
        fields.set(field, value);
      } else if (this.#isMergekits && given === 'parameters') {
        for (const [name, one] of Object.entries(this.#object(value, at))) {
          // It changes only the memory that mergekit needs.
          if (name === 'int8_mask') continue;
          const own = name === 'filter_wise' ? 'filterWise' : name;
          if (!rules.includes(own)) this.#refuse(name, `${at}.${name}`, rules);
          requireLevel(own, `${at}.${name}`);
          add(own, one, `${at}.${name}`);
        }
      } else if (!this.#isMergekits && rules.includes(given)) {
        requireLevel(given, at);
        add(given, value, at);
      } else {
        this.#refuse(given, at, rules, level);
      }
    }
    return { fields, parameters };
  }

  /** The library's name of a key; null for none. */
  #field(given: string, level: Level): string | null {
    const keys = Object.entries(KEYS[level]);
    const found = keys.find(([own, mergekits]) => given === (this.#isMergekits ? mergekits : own));
    return found === undefined || (!this.#isMergekits && given === 'tokenizerOptions')
      ? null
      : found[0];
  }

  /** The key of a field in the form of the recipe. */
  #keyOf(level: Level, field: string): string {
    return (this.#isMergekits ? KEYS[level][field] : null) ?? field;
  }

  #refuse(given: string, at: string, parameters: readonly string[], level?: Level): never {
    const keys = level === undefined ? [] : Object.entries(KEYS[level]);
    if (level !== undefined) {
      const remedy = this.#remedyFor(given, level, parameters);
      if (remedy !== null) this.#fail(`${at}: ${OTHER_FORM}; ${remedy}`);
    }
    // The library's form has no key for the options of a tokenizer.
    const names = keys.map(([own, mergekits]) =>
      this.#isMergekits ? mergekits : own === 'tokenizerOptions' ? null : own,
    );
    const ofMethod = this.#isMergekits && level !== undefined ? [] : parameters;
    const known = [...names, ...ofMethod].filter((name) => name !== null);
    // In mergekit's form, only parameters depend on the method.
    const method = this.#isMergekits && level !== undefined ? '' : ` with ${this.#methodName}`;
    this.#fail(`${at} is not supported${method}${nearHint(given, known)}`);
  }

  /** What to write in place of a key of the other form; null for other keys. */
  #remedyFor(given: string, level: Level, parameters: readonly string[]): string | null {
    const fields = Object.entries(KEYS[level]);
    const found = fields.find(([own, other]) => given === (this.#isMergekits ? own : other));
    if (found !== undefined) {
      const field = found[0] === 'tokenizerOptions' ? 'tokenizer' : found[0];
      return `use ${this.#keyOf(level, field)} in place of ${given}`;
    }
    if (!this.#isMergekits) {
      return given === 'parameters' ? 'list its keys without parameters around them' : null;
    }
    if (!parameters.includes(given)) return null;
    return `list ${given === 'filterWise' ? 'filter_wise' : given} in parameters`;
  }

  #layers(layers: unknown, key: string): readonly [first: number, end: number] {
    const [first, end] = (Array.isArray(layers) ? layers : []) as [number, number];
    const isRange = Number.isInteger(first) && Number.isInteger(end) && 0 <= first && first < end;
    if (isRange && (layers as unknown[]).length === 2) return [first, end];
    const name = this.#isMergekits ? 'layer_range' : 'layers';
    throw invalidRecipe(
      '[first, end) with first < end',
      { key: `${key}.${name}`, path: this.#path },
      layers,
    );
  }

  #dtype(fields: Members['fields']): MergeDtype | null {
    const [first, last] = (['dtype', 'outDtype'] as const).map((key) => {
      const given = fields.get(key);
      if (given === undefined) return null;
      const dtype = typeof given === 'string' ? dtypeOfOtherName(given) : undefined;
      if (dtype !== undefined && isCastSource(dtype)) return dtype;
      const own = (this.#isMergekits ? KEYS.recipe[key] : key) as string;
      // Known dtypes are not misspelt, and float8 is not float64.
      const digits = String(given).replaceAll(/\D/g, '');
      const names = DTYPE_NAMES.filter((name) => name.replaceAll(/\D/g, '').endsWith(digits));
      const hint = dtype === undefined ? nearHint(given, names) : '';
      throw invalidRecipe('F64, F32, F16 or BF16', { key: own, path: this.#path }, given, hint);
    });
    return last ?? first ?? null;
  }

  #tokenizer(fields: Members['fields'], base: number | null): Recipe['tokenizer'] {
    let tokenizer = fields.get('tokenizer');
    const options = fields.get('tokenizerOptions');
    if (options !== undefined) {
      if (tokenizer !== undefined) this.#fail('the recipe has tokenizer_source and tokenizer');
      const { source, ...others } = this.#object(options, 'tokenizer') as Record<string, unknown>;
      const [other] = Object.keys(others);
      if (other !== undefined) {
        this.#fail(`tokenizer.${other} is not supported${nearHint(other, ['source'])}`);
      }
      if (source == null) this.#fail('tokenizer.source is missing');
      tokenizer = source;
    }
    if (tokenizer === 'base' && base === null) this.#fail('the tokenizer of the base needs a base');
    if (tokenizer === 'base' || tokenizer === 'union') return tokenizer;
    const known = this.#sources.length;
    const model = this.#model(tokenizer, 'tokenizer');
    if (model === known) {
      const hint = nearHint(tokenizer, ['base', 'union']);
      const list = hint === '' ? '; list it among the models' : hint;
      this.#fail(`the model of the tokenizer is not in the recipe${list}`);
    }
    return model;
  }

  #seed(seed: unknown): number {
    if (seed === undefined) return 0;
    if (Number.isSafeInteger(seed) && (seed as number) >= 0) return seed as number;
    throw invalidRecipe('an integer from 0 on', { key: 'seed', path: this.#path }, seed);
  }

  #object(value: unknown, key: string): object {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
    throw invalidRecipe('an object', { key, path: this.#path }, value);
  }

  #list(value: unknown, key: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    throw invalidRecipe('a list with at least one item', { key, path: this.#path }, value);
  }

  #fail(message: string): never {
    throw recipeError(message, this.#path);
  }
}

/** A source without parts of a path that change nothing: other spellings are the same model. */
function placeOf(source: unknown): unknown {
  if (typeof source !== 'string') return source;
  return source.replace(/^(?:\.\/+)+(?=.)/, '').replace(/(?<=.)\/+$/, '');
}
