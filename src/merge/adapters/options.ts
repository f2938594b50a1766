/** What `mergeAdapters` takes. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireFunction,
  requireOptions,
  requireSignal,
} from '../../errors/arguments.js';
import { isIterable } from '../../errors/brand-checks.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import { VIEW_OF } from '../../file/source/view.js';
import type { MergeSource } from '../base.js';
import { type Component, componentOf } from './names.js';

/** An adapter, and how it is merged. */
export interface AdapterInput<Source> {
  /** Anything that `open` takes, or an open checkpoint. */
  readonly source: Source | TensorSource;
  /** Strength; 1 by default. Tensors that the adapter replaces are replaced whatever it is. */
  readonly scale?: number | undefined;
  /**
   * Strengths of single weights, by patterns of their names in the base (`*` is any text). The first that matches
   * counts.
   */
  readonly scales?: Iterable<readonly [pattern: string, scale: number]> | undefined;
  /** The parsed `adapter_config.json` of a PEFT adapter. By default it is read next to the adapter. */
  readonly config?: unknown;
  /**
   * The model of a pipeline that the base is, for adapters of several: `unet`, `transformer`, `te` (or `te1`), `te2` or
   * `te3`. Keys of the other models are left out.
   */
  readonly component?: 'unet' | 'transformer' | 'te' | 'te1' | 'te2' | 'te3' | undefined;
  /** Changes the path of a module in the adapter before it is looked up in the base. */
  readonly rename?: ((path: string) => string) | undefined;
}

/** Options of `mergeAdapters`. */
export interface MergeAdaptersOptions {
  /** What happens to keys of adapters that have no place in the base: an error by default, or they are skipped. */
  readonly unmatched?: 'error' | 'skip' | undefined;
  /**
   * What happens to NaN, infinities and values too large for the dtype: an error by default, or written as they are.
   */
  readonly nonFinite?: 'error' | 'keep' | undefined;
  /** Ends opening and reading adapters early. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Options of `mergeModels`. With `unmatched: 'skip'`, tensors are merged from the models that have them in the shape of
 * the first one, and vocabularies of different lengths are cut to their common rows.
 */
export type MergeModelsOptions = MergeAdaptersOptions;

const OPTIONS: OptionNames<MergeAdaptersOptions> = {
  unmatched: true,
  nonFinite: true,
  signal: true,
};

const INPUT: OptionNames<AdapterInput<unknown>> = {
  source: true,
  scale: true,
  scales: true,
  config: true,
  component: true,
  rename: true,
};

const COMPONENTS: readonly string[] = ['unet', 'transformer', 'te', 'te1', 'te2', 'te3'];

/** A checked adapter input. */
export interface CheckedInput {
  readonly source: unknown;
  readonly scale: number;
  readonly scales: readonly (readonly [pattern: string, scale: number])[];
  readonly config: unknown;
  readonly component: Component | null;
  readonly rename: ((path: string) => string) | null;
  /** The strength for a weight of the base. */
  strengthOf(weight: string): number;
  /** A pattern that matches none of the weights; undefined if there is none. */
  unusedPattern(weights: Iterable<string>): string | undefined;
}

/** Throws a TypeError or a RangeError for unusable options. */
export function requireMergeOptions(options: MergeAdaptersOptions): void {
  requireOptions(options, OPTIONS);
  requireOneOf('unmatched', options.unmatched ?? 'error', ['error', 'skip']);
  requireOneOf('nonFinite', options.nonFinite ?? 'error', ['error', 'keep']);
  requireSignal(options.signal);
  options.signal?.throwIfAborted();
}

/** Checks the adapters. Throws a TypeError or a RangeError. */
export function checkedInputs(adapters: unknown): CheckedInput[] {
  if (!isIterable(adapters) || typeof adapters === 'string') {
    throw argumentTypeError('adapters', 'an array of sources', adapters);
  }
  const inputs = Array.from(adapters, checkedInput);
  if (inputs.length === 0)
    throw argumentRangeError('adapters', 'an array of at least one adapter', inputs);
  return inputs;
}

/** Whether a value is an open checkpoint. */
export function isHandle(source: unknown): source is MergeSource {
  return typeof source === 'object' && source !== null && VIEW_OF in source;
}

function checkedInput(adapter: unknown, index: number): CheckedInput {
  const isObject = typeof adapter === 'object' && adapter !== null && !isHandle(adapter);
  const input = (
    isObject && 'source' in adapter ? adapter : { source: adapter }
  ) as AdapterInput<unknown>;
  const label = `adapters[${index}]`;
  requireOptions(input, INPUT, label);
  const { source, scale = 1, config, component, rename } = input;
  requireScale(`${label}.scale`, scale);
  if (component !== undefined) requireOneOf(`${label}.component`, component, COMPONENTS);
  if (rename !== undefined) requireFunction(`${label}.rename`, rename);
  const patterns = patternsOf(`${label}.scales`, input.scales);
  return {
    source,
    scale,
    scales: patterns.map(({ text, scale }) => [text, scale]),
    config,
    component: component === undefined ? null : componentOf(component),
    rename: rename ?? null,
    strengthOf: (weight) => patterns.find(({ pattern }) => pattern.test(weight))?.scale ?? scale,
    unusedPattern(weights) {
      const names = [...weights];
      return patterns.find(({ pattern }) => !names.some((name) => pattern.test(name)))?.text;
    },
  };
}

/** A strength for the weights whose names match a pattern. */
interface PatternScale {
  readonly text: string;
  readonly pattern: RegExp;
  readonly scale: number;
}

function patternsOf(label: string, scales: unknown): PatternScale[] {
  if (scales === undefined) return [];
  if (!isIterable(scales)) throw argumentTypeError(label, 'pairs of pattern and scale', scales);
  return Array.from(scales, (pair): PatternScale => {
    const [text, scale] = (Array.isArray(pair) ? pair : []) as [string, number];
    if (typeof text !== 'string') {
      throw argumentTypeError(label, 'pairs of pattern and scale', pair);
    }
    requireScale(`${label} of ${JSON.stringify(text)}`, scale);
    const parts = text.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
    return { text, pattern: new RegExp(`^${parts.join('.*')}$`, 's'), scale };
  });
}

function requireScale(label: string, scale: unknown): void {
  if (typeof scale !== 'number') throw argumentTypeError(label, 'a number', scale);
  if (!Number.isFinite(scale)) throw argumentRangeError(label, 'a finite number', scale);
}

function requireOneOf(name: string, value: unknown, allowed: readonly string[]): void {
  if (typeof value === 'string' && allowed.includes(value)) return;
  const expected = allowed.map((one) => `'${one}'`).join(' or ');
  throw typeof value === 'string'
    ? argumentRangeError(name, expected, value)
    : argumentTypeError(name, expected, value);
}
