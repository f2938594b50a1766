/** Finds out what an adapter is, from names, shapes and its configuration. */

import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
  requireSignal,
} from '../../errors/arguments.js';
import { quoteName } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { OwnMergeSource } from '../base.js';
import { findConfig } from './adapter.js';
import type { AdapterKind } from './change.js';
import { isPeft, mayBeAdapter, PEFT_PREFIX } from './detect.js';
import { unsupportedMerge } from './errors.js';
import { valuesOf } from './factors.js';
import { type AdapterModule, groupKeys, type Part, unsupportedKind } from './keys.js';
import { isHandle } from './options.js';
import type { PeftConfig } from './peft-config.js';
import { declaredScales, scaleOfAlpha } from './scales.js';

/** A module that an adapter changes. */
export interface DescribedModule {
  /** The path of the module, as the adapter has it, without PEFT's prefix. */
  readonly path: string;
  /** The kind of change. */
  readonly kind: AdapterKind;
  /** Rank of the factors; null for a change without factors. */
  readonly rank: number | null;
  /** Null where neither a configuration nor the file declares it. */
  readonly alpha: number | null;
  /**
   * What the product of the factors is multiplied by: alpha / rank or alpha / √rank, or 1 in files that don't declare
   * alpha. Null without factors, for PEFT's without a configuration, and where alpha was not read.
   */
  readonly scale: number | null;
  /** Names of its tensors. */
  readonly keys: readonly string[];
}

/** An adapter, as data. */
export interface AdapterDescription {
  /** What it changes, in the order of the file. */
  readonly modules: readonly DescribedModule[];
  /** Names of the modules, such as `q_proj`: those of PEFT's configuration, else the ends of their paths. */
  readonly targetModules: readonly string[];
  /** The base that it was trained on, as PEFT's configuration or the metadata of kohya's scripts name it; else null. */
  readonly baseModel: string | null;
}

/** Options of `describeAdapter`. */
export interface DescribeAdapterOptions {
  /** Whether to read values of `alpha` from the file, which takes requests where it is remote; true by default. */
  readonly readAlpha?: boolean | undefined;
  /** Ends the call with its reason. */
  readonly signal?: AbortSignal | undefined;
}

const OPTIONS: OptionNames<DescribeAdapterOptions> = { readAlpha: true, signal: true };

/** As the public `describeAdapter`. */
export async function describe(
  source: OwnMergeSource,
  options: DescribeAdapterOptions,
): Promise<AdapterDescription | null> {
  if (!isHandle(source)) throw argumentTypeError('checkpoint', 'an open checkpoint', source);
  requireOptions(options, OPTIONS);
  const { readAlpha = true, signal } = options;
  requireBoolean('readAlpha', readAlpha);
  requireSignal(signal);
  signal?.throwIfAborted();
  const entries = new Map((await source.tensors({ signal })).map((entry) => [entry.name, entry]));
  if (!mayBeAdapter(source.path, [...entries.keys()])) return null;
  const unsupported = Array.from(entries.keys(), (key) => [key, unsupportedKind(key)] as const);
  const ofPeft = isPeft(source.path, entries.keys());
  const { modules } = groupKeys(entries, ofPeft ? PEFT_PREFIX : '');
  if (!modules.some(isAdapted)) {
    const [key, kind] = (ofPeft && unsupported.find(([, found]) => found !== undefined)) || [];
    if (key === undefined) return null;
    const message = `${kind} adapters cannot be merged (${quoteName(key)})`;
    throw unsupportedMerge(message, { path: source.path });
  }
  const config = ofPeft ? await findConfig(source, { signal }) : null;
  const { metadata, path } = source;
  const declaredOf = declaredScales({ config, metadata, path });
  const alphas = readAlpha ? await alphasOf(source, modules, signal) : new Map<string, number>();
  const described = modules.map((module): DescribedModule => {
    const kind = kindOf(module);
    const found = rankOf(module);
    const isScaled = found !== null || kind === 'lokr';
    const declared = isScaled ? declaredOf(module.path) : null;
    const rank = found === null ? null : (declared?.rank ?? found);
    const alpha = declared?.alpha ?? alphas.get(module.path) ?? null;
    // Only PEFT needs alpha.
    const isUnknown = alpha === null && (ofPeft || module.parts.has('alpha'));
    const own = alpha === null || rank === null ? 1 : scaleOfAlpha(alpha, rank);
    const scale = declared?.scale ?? (isScaled && !isUnknown ? own : null);
    const keys = Array.from(module.parts.values(), ({ key }) => key);
    return { path: module.path, kind, rank, alpha, scale, keys };
  });
  const baseModel = config?.baseModel ?? trainedOn(metadata);
  return { modules: described, targetModules: targetsOf(described, config), baseModel };
}

type Module = AdapterModule<TensorEntry>;

/** The parts that show the kind, in order: DoRA has those of LoRA, too. */
const KINDS: readonly (readonly [part: Part, kind: AdapterKind])[] = [
  ['magnitude', 'dora'],
  ['down', 'lora'],
  ['tokenDown', 'lora'],
  ['hada_w1_a', 'loha'],
  ['lokr_w1', 'lokr'],
  ['lokr_w1_a', 'lokr'],
  ['ia3', 'ia3'],
  ['factors', 'ia3'],
  ['tokens', 'tokens'],
];

function kindOf({ parts }: Module): AdapterKind {
  const kind = KINDS.find(([part]) => parts.has(part))?.[1] ?? 'diff';
  return kind === 'lora' && parts.has('doraScale') ? 'dora' : kind;
}

/** Whether names show an adapter: a single tensor named `diff` or `alpha` may be part of any model. */
function isAdapted(module: Module): boolean {
  return kindOf(module) !== 'diff' || /^(?:lora|lycoris)_/.test(module.path);
}

function rankOf({ parts }: Module): number | null {
  const size = (part: Part, axis: number): number | undefined => {
    const shape = parts.get(part)?.tensor.shape;
    return shape?.[axis];
  };
  return (
    size('up', 1) ??
    size('tokenUp', 1) ??
    size('hada_w1_b', 0) ??
    size('lokr_w1_b', 0) ??
    size('lokr_w2_b', 0) ??
    null
  );
}

async function alphasOf(
  source: OwnMergeSource,
  modules: readonly Module[],
  signal: AbortSignal | undefined,
): Promise<ReadonlyMap<string, number>> {
  const keys = modules.flatMap(({ path, parts }) => {
    const alpha = parts.get('alpha');
    return alpha === undefined ? [] : [[path, alpha.key] as const];
  });
  const read = await source.readTensors(
    keys.map(([, key]) => key),
    { signal },
  );
  return new Map(
    keys.flatMap(([path, key]) => {
      const tensor = read.get(key);
      return tensor === undefined ? [] : [[path, valuesOf(tensor)[0] ?? Number.NaN] as const];
    }),
  );
}

function targetsOf(modules: readonly DescribedModule[], config: PeftConfig | null): string[] {
  const listed = config?.targetModules ?? null;
  if (listed !== null) return listed;
  const ends = modules.map(({ path }) => {
    if (path.includes('.')) return path.slice(path.lastIndexOf('.') + 1);
    // Underscores for dots: what follows the last number in between.
    return /^.*_\d+_(\D.*)$/s.exec(path)?.[1] ?? path;
  });
  return [...new Set(ends)].sort();
}

/** The base in the metadata of kohya's scripts, which write `None` for no name. */
function trainedOn(metadata: ReadonlyMap<string, string> | null): string | null {
  const names = ['ss_sd_model_name', 'ss_base_model_version'].map((key) => metadata?.get(key));
  return names.find((name) => name !== undefined && name !== '' && name !== 'None') ?? null;
}
