/** What `diff` finds in two sources: the object that it prints. */

import type { AnyCheckpoint } from '../../index.js';
import {
  type ChangedTensor as ComparedTensor,
  compare,
  type TensorDifference,
} from '../../inspect.js';
import { progressOn } from '../output/progress.js';
import { dequantizedModel, logicalModel } from '../sources/logical.js';
import { isPipeline, type OpenedSource, requireModel } from '../sources/open-source.js';
import { type CommandContext, jsonNumber } from './command.js';

export const ORDERS = ['offset', 'name', 'relative'] as const;

/** A tensor of both sources, for `--json`. */
export interface ChangedTensor extends Omit<ComparedTensor, 'values'> {
  /** With `--values`, for tensors of one shape. */
  readonly values?: {
    readonly [Key in keyof TensorDifference]: number | string | null;
  };
  /** With `--base`: how A and B differ from it; null for the same tensor. */
  readonly fromBase?: readonly [a: FromBase | null, b: FromBase | null];
  /**
   * With `--base` and `--values`, for tensors of one shape in all three: cosine similarity of the changes of A and B;
   * null if one of them has none.
   */
  readonly cosineOfChanges?: number | null;
}

/** The change of a tensor since the common base. */
export interface FromBase {
  readonly changed: ComparedTensor['changed'] | 'added' | 'removed';
  /** With `--values`, of one shape. */
  readonly relative?: number | string | null;
}

/** A layer, for `--tree`. */
export interface LayerRow {
  /** The name up to the number of the layer, or without its last part. */
  readonly name: string;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** With `--values`: the greatest relative error. */
  readonly relative?: number | string | null;
}

export interface DiffResult {
  readonly a: string;
  readonly b: string;
  readonly same: boolean;
  /** Names in the second source alone, and in the first alone. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly ChangedTensor[];
  readonly unchanged: number;
  /** With `--base`: names that are the same in A and B, and not in the base. */
  readonly base?: string;
  readonly changedAlike?: readonly string[];
  /** With `--base` and `--values`: of the changes of all tensors together. */
  readonly cosineOfChanges?: number | null;
  /** With `--tree`. */
  readonly layers?: readonly LayerRow[];
}

/** Ways to compare. */
export interface Comparison {
  readonly isQuick: boolean;
  readonly hasValues: boolean;
  readonly isRaw: boolean;
  readonly names: ((name: string) => boolean) | undefined;
}

/** What is compared: a model, or the models of a pipeline by their folders. */
type Compared = AnyCheckpoint | { readonly models: ReadonlyMap<string, AnyCheckpoint> };

/** Two models, or two pipelines. */
export async function comparedPair(
  a: OpenedSource,
  b: OpenedSource,
  comparison: Comparison,
  signal: AbortSignal,
): Promise<readonly [Compared, Compared]> {
  if (!isPipeline(a) && !isPipeline(b)) return await comparedModels(a, b, comparison, signal);
  if (!isPipeline(a) || !isPipeline(b)) return [requireModel(a), requireModel(b)];
  const models = [
    new Map<string, AnyCheckpoint>(a.models),
    new Map<string, AnyCheckpoint>(b.models),
  ] as const;
  for (const [folder, one] of a.models) {
    const other = b.models.get(folder);
    if (other === undefined) continue;
    const [x, y] = await comparedModels(one, other, comparison, signal);
    models[0].set(folder, x);
    models[1].set(folder, y);
  }
  return [{ models: models[0] }, { models: models[1] }];
}

/** Two models, as they are stored or as they are meant. */
async function comparedModels(
  a: AnyCheckpoint,
  b: AnyCheckpoint,
  { hasValues, isRaw }: Comparison,
  signal: AbortSignal,
): Promise<readonly [AnyCheckpoint, AnyCheckpoint]> {
  if (isRaw || !hasValues) return [a, b];
  const views = [await viewOf(a, signal), await viewOf(b, signal)];
  if (views.every((view) => view === null)) return [a, b];
  // Unquantized weights are compared as they are, whatever the configuration declares.
  return [
    views[0] ?? (await dequantizedModel(a, { config: null, signal })).view,
    views[1] ?? (await dequantizedModel(b, { config: null, signal })).view,
  ];
}

/** The dequantized view of a model; null without quantized weights. */
export async function viewOf(
  checkpoint: AnyCheckpoint,
  signal: AbortSignal,
): Promise<AnyCheckpoint | null> {
  const tensors = await checkpoint.tensors({ signal });
  return (await logicalModel(checkpoint, tensors, signal))?.view ?? null;
}

/** Compares with a bar of progress; numbers as JSON has them. */
export async function compareOpened(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  { stderr, signal }: CommandContext,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const [a, b] = await comparedPair(...sources, comparison, signal);
  const { isQuick, hasValues: values, names } = comparison;
  const progress = progressOn(stderr, 'comparing');
  const { onProgress } = progress;
  const options = { bytes: !isQuick, values, names, signal, onProgress };
  const found = await compare(a, b, options).finally(() => progress.end());
  // Only dequantized views have schemes.
  const isDequantized = values && !comparison.isRaw;
  const schemes = [
    isDequantized ? await schemesOf(a, signal) : new Map<string, string>(),
    isDequantized ? await schemesOf(b, signal) : new Map<string, string>(),
  ];
  return {
    ...found,
    changed: found.changed.map((one) => {
      const [x, y] = schemes.map((named) => named.get(one.name));
      return inJson(withSchemes(one, x ?? one.dtype[0], y ?? one.dtype[1]));
    }),
  };
}

/** The schemes of quantized weights by their names, of a pipeline with the folder before it. */
async function schemesOf(
  compared: Compared,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const models = 'models' in compared ? compared.models : new Map([['', compared]]);
  const schemes = new Map<string, string>();
  for (const [folder, model] of models) {
    for (const { name, quantization } of await model.tensors({ signal })) {
      if (quantization === undefined) continue;
      schemes.set(folder === '' ? name : `${folder}/${name}`, quantization.scheme);
    }
  }
  return schemes;
}

/** The change of a tensor whose dtypes are those by which it is stored. */
function withSchemes(one: ComparedTensor, a: string, b: string): ComparedTensor {
  const dtype = [a, b] as const;
  if (a === b) return { ...one, dtype };
  return { ...one, dtype, changed: one.changed.includes('shape') ? 'dtype and shape' : 'dtype' };
}

function inJson({ values, ...changed }: ComparedTensor): ChangedTensor {
  if (values === undefined) return changed;
  const { elements, differing, nonFinite, maxError, relative, cosine } = values;
  return {
    ...changed,
    values: {
      elements,
      differing,
      nonFinite,
      maxError: jsonNumber(maxError),
      relative: jsonNumber(relative),
      cosine: jsonNumber(cosine),
    },
  };
}

/** A difference as a number, for sorting; JSON has infinity as text. */
function relativeOf({ values }: ChangedTensor): number {
  return values?.relative === undefined || values.relative === null ? -1 : Number(values.relative);
}

/** The part of a name that stands for its layer: up to the first number, else without the last part. */
function layerOf(name: string): string {
  return /^.*?[./]\d+(?=[./])/.exec(name)?.[0] ?? /^.*(?=[./])/.exec(name)?.[0] ?? name;
}

/** The differences by layers, in the order of the first source. */
export function layersOf({
  added,
  removed,
  changed,
}: Omit<DiffResult, 'a' | 'b' | 'same'>): LayerRow[] {
  const layers = new Map<string, { -readonly [Key in keyof LayerRow]: LayerRow[Key] }>();
  const layerAt = (tensor: string) => {
    const name = layerOf(tensor);
    const layer = layers.get(name) ?? { name, added: 0, removed: 0, changed: 0 };
    layers.set(name, layer);
    return layer;
  };
  for (const one of changed) {
    const layer = layerAt(one.name);
    layer.changed++;
    const relative = relativeOf(one);
    if (relative >= 0 && relative >= Number(layer.relative ?? -1)) {
      layer.relative = jsonNumber(relative);
    }
  }
  for (const name of removed) layerAt(name).removed++;
  for (const name of added) layerAt(name).added++;
  return [...layers.values()];
}

/** Changes in the order of the first source, by name, or the greatest relative error first. */
export function inOrder(
  changed: readonly ChangedTensor[],
  order: (typeof ORDERS)[number],
): readonly ChangedTensor[] {
  if (order === 'offset') return changed;
  if (order === 'name') return changed.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return changed.toSorted((a, b) => relativeOf(b) - relativeOf(a) || 0);
}
