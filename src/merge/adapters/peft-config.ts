/** `adapter_config.json` of PEFT: the kind of adapter, ranks and scales. */

import { quoteName } from '../../errors/errors.js';
import { invalidAdapter, unsupportedMerge } from './errors.js';

/** Kinds of adapters that can be merged. */
const KINDS: readonly string[] = ['LORA', 'LOHA', 'LOKR', 'IA3'];

/** Options of LoRA that change more than `W + scale · B · A`. */
const UNSUPPORTED: readonly string[] = [
  ...['use_qalora', 'use_bdlora', 'layer_replication', 'megatron_config'],
  ...[
    'alora_invocation_tokens',
    'velora_config',
    'kasa_config',
    'monteclora_config',
    'arrow_config',
  ],
];

/** Initialisations that change the base, too. */
const CHANGES_BASE = /^(?:pissa|corda|olora|loftq|lora_ga)/;

/** Rank and alpha of a module. */
export interface ModuleRank {
  readonly rank: number;
  readonly alpha: number;
}

/** A parsed configuration. */
export class PeftConfig {
  readonly type: string;
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #ranks: readonly Pattern[];
  readonly #alphas: readonly Pattern[];

  /**
   * Reads the fields.
   *
   * @param path the file, for errors
   * @throws SafetensorsError `SAFETENSORS_MERGE_UNSUPPORTED`, `SAFETENSORS_INVALID_ADAPTER`
   */
  constructor(config: unknown, path: string) {
    if (typeof config !== 'object' || config === null || Array.isArray(config)) {
      throw invalidAdapter('the configuration is not a JSON object', { path });
    }
    const fields = config as Readonly<Record<string, unknown>>;
    this.#fields = fields;
    this.#path = path;
    if (fields['peft_type'] === undefined) {
      throw invalidAdapter('the configuration has no peft_type', { path });
    }
    this.type = String(fields['peft_type']);
    if (!KINDS.includes(this.type)) {
      const message = `adapters of peft_type ${quoteName(this.type)} cannot be merged; supported are ${KINDS.join(', ')}`;
      throw unsupportedMerge(message, { path });
    }
    const used = UNSUPPORTED.find((name) => Boolean(fields[name]));
    if (used !== undefined) throw unsupportedMerge(`${used} cannot be merged`, { path });
    this.#ranks = this.#patterns('rank_pattern');
    this.#alphas = this.#patterns('alpha_pattern');
  }

  /** Whether weights of this module class are stored as `[in, out]`. */
  get fanInFanOut(): boolean {
    return this.#fields['fan_in_fan_out'] === true;
  }

  /** Whether scales divide by the root of the rank. */
  get isRankStabilized(): boolean {
    return this.#fields['use_rslora'] === true;
  }

  /** The name of the base that the adapter was trained on. */
  get baseModel(): string | null {
    const name = this.#fields['base_model_name_or_path'];
    return typeof name === 'string' ? name : null;
  }

  /** The initialisation, if it changed the base. */
  get changedBase(): string | null {
    const init = this.#fields['init_lora_weights'];
    return typeof init === 'string' && CHANGES_BASE.test(init) ? init : null;
  }

  /** Names of modules that must have factors; null when they are chosen in another way. */
  get targets(): readonly string[] | null {
    const chosen = ['layers_to_transform', 'layers_pattern', 'exclude_modules'];
    const { target_modules: targets } = this.#fields;
    if (!Array.isArray(targets) || chosen.some((name) => isSet(this.#fields[name]))) return null;
    return targets.filter((name) => typeof name === 'string');
  }

  /** The names in `target_modules`, or its expression. */
  get targetModules(): string[] | null {
    const { target_modules: targets } = this.#fields;
    if (typeof targets === 'string') return [targets];
    return Array.isArray(targets) ? targets.filter((name) => typeof name === 'string') : null;
  }

  /** Parameters that have factors, in the order of the configuration. */
  get targetParameters(): readonly string[] {
    const names = this.#fields['target_parameters'];
    return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [];
  }

  /** Whether IA3 scales the inputs of a module, not its outputs; undefined when only shapes show it. */
  isFeedForward(module: string): boolean | undefined {
    const { feedforward_modules: names } = this.#fields;
    if (typeof names === 'string') {
      return expressionOf(names, '', 'feedforward_modules', this.#path).test(module);
    }
    if (!Array.isArray(names)) return undefined;
    return names.some((name) => typeof name === 'string' && module.endsWith(name));
  }

  /** Rows of an embedding that are replaced, in the order of the tensor. */
  trainedTokens(module: string): readonly number[] {
    const found = this.#fields['trainable_token_indices'];
    const list = Array.isArray(found)
      ? found
      : Object.entries(Object(found)).find(
          ([name]) => module === name || module.endsWith(`.${name}`),
        )?.[1];
    const isList =
      Array.isArray(list) && list.every((one) => Number.isSafeInteger(one) && one >= 0);
    if (isList) return list;
    const message = `trainable_token_indices has no list of rows for ${quoteName(module)}`;
    throw invalidAdapter(message, { path: this.#path });
  }

  /** The rank and alpha of a module. */
  rankOf(module: string): ModuleRank {
    const alpha = this.type === 'LORA' ? 'lora_alpha' : 'alpha';
    return {
      rank: this.#ranks.find((one) => one.matches(module))?.value ?? this.#number('r'),
      alpha: this.#alphas.find((one) => one.matches(module))?.value ?? this.#number(alpha),
    };
  }

  /** The scale of a module's product. */
  scaleOf({ rank, alpha }: ModuleRank): number {
    return alpha / (this.isRankStabilized ? Math.sqrt(rank) : rank);
  }

  #number(name: string): number {
    const value = this.#fields[name];
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    throw invalidAdapter(`the configuration has no number ${name}`, { path: this.#path });
  }

  #patterns(name: string): Pattern[] {
    const found = this.#fields[name] ?? {};
    return Object.entries(Object(found)).map(([key, value]): Pattern => {
      if (typeof value !== 'number' || !Number.isFinite(value)) {
        throw invalidAdapter(`${name}[${quoteName(key)}] is not a number`, { path: this.#path });
      }
      return new Pattern(key, value, `${name}[${quoteName(key)}]`, this.#path);
    });
  }
}

function isSet(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null;
}

/** Quantifiers of an expression: a few take polynomial time, nested ones exponential. */
const QUANTIFIERS = /[*+?]|\{\d/g;
const MAX_QUANTIFIERS = 4;
const NESTED = /\)(?:[*+]|\{)/;

/**
 * Compiles an expression that matches whole names.
 *
 * @param start what names may begin with, as an expression
 */
function expressionOf(expression: string, start: string, label: string, path: string): RegExp {
  const quantifiers = expression.match(QUANTIFIERS)?.length ?? 0;
  const isComplex = quantifiers > MAX_QUANTIFIERS || NESTED.test(expression);
  if (isComplex || expression.length > 1000) {
    throw unsupportedMerge(`${label} is too complex an expression`, { path });
  }
  try {
    return new RegExp(`^${start}(?:${expression})$`, 's');
  } catch (cause) {
    throw invalidAdapter(`${label} is not a valid regular expression`, { path, cause });
  }
}

/** A key of a pattern: an expression that matches the end of a module's name. */
class Pattern {
  readonly value: number;
  readonly #expression: RegExp;

  constructor(key: string, value: number, label: string, path: string) {
    this.value = value;
    this.#expression = expressionOf(key, '(?:.*\\.)?', label, path);
  }

  matches(module: string): boolean {
    return this.#expression.test(module);
  }
}
