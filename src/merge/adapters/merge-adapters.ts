/** Merges adapters into a base: the parts of the view. */

import type { Advice } from '../../errors/advice.js';
import { argumentTypeError } from '../../errors/arguments.js';
import { quoteName, quoteNames, SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import { VIEW_OF, type ViewParts, type ViewTensor } from '../../file/source/view.js';
import {
  type MergeSource,
  modelName,
  type OpenMergeSource,
  type OwnMergeSource,
  requireDequantized,
  sourceName,
} from '../base.js';
import { type Adapter, labelOf, readAdapter } from './adapter.js';
import { Assignment, type BaseWeights } from './assign.js';
import type { AdapterChange, SourcedChange, TargetWeight, WeightChange } from './change.js';
import { mayBeAdapter } from './detect.js';
import { unsupportedMerge } from './errors.js';
import { matrixShape } from './factors.js';
import { BaseNames } from './names.js';
import {
  type CheckedInput,
  checkedInputs,
  isHandle,
  type MergeAdaptersOptions,
  requireMergeOptions,
} from './options.js';
import { Orientations } from './orientation.js';
import { ADAPTERS_KEY, adapterDigest, MergedAdapters } from './record.js';
import { MergedWeight, RecentSteps } from './weight.js';

/** What `mergeAdapters` returns besides the checkpoint. */
export interface MergedInfo {
  /** Every change of a weight by an adapter, in the order of the adapters. */
  readonly changes: readonly AdapterChange[];
  /** What may be wrong though it can be merged, as texts: an adapter that was trained on another base. */
  readonly warnings: readonly string[];
}

/** As the public `mergeAdapters`, with `open` of this runtime. */
export async function mergeAdaptersWith<Opened extends MergeSource>(
  open: OpenMergeSource,
  given: Opened,
  adapters: Iterable<unknown>,
  options: MergeAdaptersOptions = {},
): Promise<Opened & MergedInfo> {
  requireMergeOptions(options);
  if (!isHandle(given)) throw argumentTypeError('base', 'an open checkpoint', given);
  const inputs = checkedInputs(adapters);
  const { signal, unmatched = 'error', nonFinite = 'error' } = options;
  const base = given as unknown as OwnMergeSource<Opened>;
  await requireDequantized(given, signal);
  const entries = await base.tensors({ signal });
  const weights = await baseWeights(base, entries, signal);
  const merged = new MergedAdapters(base.metadata);
  const warnings: string[] = [];
  const changes: AdapterChange[] = [];
  const byWeight = new Map<string, SourcedChange[]>();
  for (const input of inputs) {
    const adapter = await readAdapter(input, open, signal);
    const sha256 = await adapterDigest(adapter.tensors, signal);
    merged.add(adapter, { sha256, ...input });
    requireUsedPatterns(input, weights, unmatched);
    const assignment = new Assignment(adapter, input, weights);
    requireMatched(assignment, adapter, input, { base: weights, unmatched });
    requireUntied(assignment, weights);
    warnings.push(...warningsOf(adapter, base.path));
    for (const { name, change } of assignment.changes) {
      const { kind, rank, scale } = change;
      changes.push(Object.freeze({ name, kind, rank, scale }));
      byWeight.set(name, [...(byWeight.get(name) ?? []), change]);
    }
  }
  const context = { base, recent: new RecentSteps(), mustBeFinite: nonFinite === 'error' };
  const tensors = entries.map((entry): ViewTensor => {
    const { name } = entry;
    const own = byWeight.get(name);
    const sources = [name];
    if (own === undefined) return { entry, sources, computation: null };
    const target = targetOf(entry, own);
    return { entry, sources, computation: new MergedWeight(target, own, context) };
  });
  const parts: ViewParts = {
    tensors,
    metadata: new Map([...(base.metadata ?? []), [ADAPTERS_KEY, JSON.stringify(merged.list)]]),
    problems: base.problems,
    quantMethod: null,
  };
  const facts = { changes: Object.freeze(changes), warnings: Object.freeze(warnings) };
  return Object.assign(base[VIEW_OF](parts) as Opened & object, facts);
}

/** The weight as the matrix that its changes are made for. */
function targetOf(entry: TensorEntry, changes: readonly WeightChange[]): TargetWeight {
  const { shape } = entry;
  const isOfExperts = changes.some(({ ofExperts }) => ofExperts === true);
  const [rows, columns] = isOfExperts
    ? [shape.slice(0, -1).reduce((product, size) => product * size, 1), shape.at(-1) as number]
    : matrixShape(shape);
  return { entry, rows, columns };
}

async function baseWeights(
  base: OwnMergeSource,
  entries: readonly TensorEntry[],
  signal: AbortSignal | undefined,
): Promise<BaseWeights> {
  const config = await baseConfig(base, signal);
  const text = Object(config['text_config']) as Readonly<Record<string, unknown>>;
  const names = new BaseNames(entries.map(({ name }) => name));
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  return {
    names,
    entries: byName,
    orientations: new Orientations(names, byName),
    path: base.path,
    isTied: (config['tie_word_embeddings'] ?? text['tie_word_embeddings']) === true,
    hasTransposedExperts: config['model_type'] === 'gpt_oss',
  };
}

/** The base's `config.json`; without one, or with a malformed one, an empty object. */
async function baseConfig(
  base: OwnMergeSource,
  signal: AbortSignal | undefined,
): Promise<Readonly<Record<string, unknown>>> {
  const file = await base.sibling('config.json', { signal });
  if (file === undefined) return {};
  try {
    return Object(JSON.parse(new TextDecoder().decode(file.bytes)));
  } catch {
    return {};
  }
}

/** Advice for keys without a place in the base. */
const SKIP_UNMATCHED: Advice = {
  option: 'unmatched',
  text: "pass unmatched: 'skip' to leave them out",
};

/** Names that an error lists of keys, which are long. */
const LISTED_KEYS = 3;

function requireMatched(
  { changes, unmatched: keys, missing, isAdapter }: Assignment,
  adapter: Adapter,
  { component }: CheckedInput,
  { base, unmatched }: { readonly base: BaseWeights; readonly unmatched: 'error' | 'skip' },
): void {
  const isEmpty = changes.length === 0;
  if (!isEmpty && (unmatched === 'skip' || keys.length + missing.length === 0)) return;
  const label = labelOf(adapter);
  const problems: string[] = [];
  if (!isAdapter && keys.length > 0) {
    problems.push(`${label} has no weights of adapters, only ${quoteNames(keys, LISTED_KEYS)}`);
  } else if (keys.length > 0) {
    const listed = quoteNames(keys, LISTED_KEYS);
    problems.push(`${label} has keys that match nothing in the base: ${listed}`);
  }
  if (missing.length > 0 && !isEmpty) {
    const listed = quoteNames(missing, LISTED_KEYS);
    problems.push(`${label} lacks factors that its configuration lists, for ${listed}`);
  }
  if (problems.length === 0) {
    const ofComponent = component === null ? '' : ` of the component ${component}`;
    problems.push(`${label} has no tensors${ofComponent}`);
  }
  const isBaseAdapter = mayBeAdapter(base.path, [...base.entries.keys()]);
  const remedy = !isEmpty
    ? SKIP_UNMATCHED.text
    : isBaseAdapter
      ? 'the base is an adapter: pass the model that it was trained on'
      : 'pass another adapter, or the base that it was trained on';
  const message = `${problems.join('; ')}; ${remedy}`;
  const context = { path: adapter.path, advice: [SKIP_UNMATCHED] };
  throw new SafetensorsError('SAFETENSORS_MERGE_UNMATCHED', message, context);
}

/** Rejects patterns that match nothing: their scales would be ignored. */
function requireUsedPatterns(
  { unusedPattern }: CheckedInput,
  { entries, path }: BaseWeights,
  unmatched: 'error' | 'skip',
): void {
  const pattern = unmatched === 'skip' ? undefined : unusedPattern(entries.keys());
  if (pattern === undefined) return;
  const message = `no weight of the base matches ${quoteName(pattern)} in scales; ${SKIP_UNMATCHED.text}`;
  const context = { path, advice: [SKIP_UNMATCHED] };
  throw new SafetensorsError('SAFETENSORS_MERGE_UNMATCHED', message, context);
}

/** Rejects changes that a program loses when it loads the model. */
function requireUntied({ changes }: Assignment, { isTied, path }: BaseWeights): void {
  if (!isTied) return;
  const lost = changes.find(({ name, change: { kind } }) => {
    return /(?:^|\.)lm_head\.weight$/.test(name) && kind !== 'tokens';
  });
  if (lost === undefined) return;
  const message =
    'config.json ties the weight to the input embeddings, so programs would ignore the change; set tie_word_embeddings to false there first';
  throw unsupportedMerge(message, { path, tensor: lost.name });
}

function warningsOf(adapter: Adapter, basePath: string | undefined): string[] {
  const { config } = adapter;
  const warnings: string[] = [];
  const trainedOn = baseName(config?.baseModel ?? null);
  const base = modelName(basePath);
  if (trainedOn !== null && base !== null && lastPart(trainedOn) !== lastPart(base)) {
    warnings.push(`${labelOf(adapter)} was trained on ${trainedOn}, the base is ${base}`);
  }
  if (config?.changedBase != null) {
    warnings.push(
      `${labelOf(adapter)} was initialized by ${config.changedBase}, which changes the base: merge it into that base`,
    );
  }
  return warnings;
}

/** A Hub id as it is; of a path only the last part. */
function baseName(name: string | null): string | null {
  return name !== null && /^[\w.-]+\/[\w.-]+$/.test(name) ? name : sourceName(name ?? undefined);
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).toLowerCase();
}
