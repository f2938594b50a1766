/** What `inspect` finds in a source: the object that it prints. */

import { isOfFile } from '../../file/shards/file-problems.js';
import { incompleteKind, partKind } from '../../file/shards/incomplete-models.js';
import {
  type AnyCheckpoint,
  type PlainValue,
  QuantizationError,
  SafetensorsError,
  type SourceChoice,
  type TensorCounts,
} from '../../index.js';
import { plural } from '../../inspect/format.js';
import { lackingDtypes } from '../../inspect/torch-dtypes.js';
import { type TreeNode, treeOf } from '../../inspect/tree.js';
import type { AdapterDescription, DescribedModule } from '../../inspect.js';
import { describeAdapter } from '../../merge/adapters/describe-adapter.js';
import { mayBeAdapter } from '../../merge/adapters/detect.js';
import { type ListedFile, type ListedTensor, listModel } from '../sources/listing.js';
import { type LogicalCounts, logicalCounts, logicalModel } from '../sources/logical.js';
import {
  type ForeignChoices,
  isPipeline,
  type OpenedParts,
  type OpenedSource,
  openForInspection,
  openSource,
} from '../sources/open-source.js';

/** A branch of `--tree`, for `--json`. */
export interface TreeResult {
  readonly name: string;
  readonly times: number;
  readonly tensors: number;
  readonly byteLength: number;
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly children?: readonly TreeResult[];
}

/** An adapter, for `--json`. */
export interface AdapterResult
  extends Pick<AdapterDescription, 'targetModules' | 'baseModel'>,
    Readonly<Record<'ranks' | 'alphas' | 'scales', readonly number[]>> {
  readonly kinds: readonly DescribedModule['kind'][];
  readonly modules: number;
  /** Modules with factors whose scale is unknown: without `adapter_config.json`, or with alpha in a remote file. */
  readonly withoutScale: number;
}

/** How a distributed checkpoint is stored, for `--json`. */
export interface DistributionResult {
  readonly ranks: number;
  readonly pieces: number;
  /** Null where the files do not show whether the last rank is there. */
  readonly isComplete: boolean | null;
  /** Names of Python objects next to the tensors, which are not read. */
  readonly objects: readonly string[];
}

/** One model, for `--json`. */
export interface ModelResult {
  readonly path: string;
  readonly format: string;
  /** What the file is: a model, an adapter, a part of a distributed checkpoint, or a delta. */
  readonly kind: string;
  /** Null of other kinds, and of adapters that cannot be merged. */
  readonly adapter: AdapterResult | null;
  /** Of distributed checkpoints only. */
  readonly distribution?: DistributionResult;
  readonly byteLength: number;
  readonly tensorCount: number;
  readonly parameters: number;
  readonly totalParameters: number | null;
  readonly quantization: string | null;
  /** What the quantized weights stand for; null without any, and when the configuration cannot be used. */
  readonly logical: LogicalCounts | null;
  readonly dtypes: Readonly<Record<string, TensorCounts>>;
  readonly files: readonly ListedFile[];
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly warnings: readonly string[];
  readonly unsupported: readonly UnsupportedTensor[];
  readonly tensors?: readonly ListedTensor[];
  readonly tree?: readonly TreeResult[];
}

/** A tensor of the source that safetensors cannot hold. */
export interface UnsupportedTensor {
  readonly name: string;
  readonly reason: string;
}

/** Why a model of a pipeline cannot be listed. */
interface FailedModel {
  readonly code: string;
  readonly message: string;
}

/** A pipeline has several models, by their folders. */
export type InspectResult =
  | ({ readonly source: string } & ModelResult)
  | {
      readonly source: string;
      readonly format: 'diffusers' | 'safetensors';
      readonly kind: string;
      readonly byteLength: number;
      readonly parameters: number;
      /** Folders that model_index.json names and that are not there. */
      readonly missing: readonly string[];
      /** Why models cannot be listed, by their folders. */
      readonly failed: Readonly<Record<string, FailedModel>>;
      readonly components: Readonly<Record<string, ModelResult>>;
    };

export const ORDERS = ['offset', 'name', 'size'] as const;

export interface View {
  readonly isTree: boolean;
  readonly filter: ((name: string) => boolean) | undefined;
  readonly order: (typeof ORDERS)[number];
}

function warningsOf(
  { ignoredFiles }: AnyCheckpoint,
  dtypes: Iterable<string>,
  { counts, refusal }: Logical,
  { refusal: ofAdapter }: Described,
): string[] {
  const refused = Object.values(counts?.problems ?? {});
  const [first] = refused;
  const many = `${plural(refused.length, 'weight')} cannot be dequantized: ${first}`;
  return [
    ...lackingDtypes(dtypes),
    ...ignoredFiles.map((name) => `${name} next to it is ignored`),
    ...(first === undefined ? [] : [refused.length === 1 ? first : many]),
    ...(refusal === undefined ? [] : [refusal]),
    ...(ofAdapter === undefined ? [] : [ofAdapter]),
  ];
}

/** What an adapter is, or why it cannot be described. */
interface Described {
  readonly adapter: AdapterResult | null;
  readonly refusal?: string;
}

async function adapterOf(
  checkpoint: AnyCheckpoint,
  tensors: readonly ListedTensor[],
  signal: AbortSignal,
): Promise<Described> {
  const names = tensors.map(({ name }) => name);
  // The code that reads adapters is five times as long as that of `inspect`.
  if (!mayBeAdapter(checkpoint.path, names)) return { adapter: null };
  try {
    // A request for each alpha of a remote file would take longer than all headers.
    const found = await describeAdapter(checkpoint, { readAlpha: checkpoint.local, signal });
    if (found === null) return { adapter: null };
    const { modules, targetModules, baseModel } = found;
    const ranked = modules.filter(({ rank }) => rank !== null);
    const distinct = (of: 'rank' | 'alpha' | 'scale'): number[] => {
      const values = modules.flatMap((module) => module[of] ?? []);
      return [...new Set(values)].sort((a, b) => a - b);
    };
    const adapter: AdapterResult = {
      kinds: [...new Set(modules.map(({ kind }) => kind))],
      modules: modules.length,
      ...{ ranks: distinct('rank'), alphas: distinct('alpha'), scales: distinct('scale') },
      withoutScale: ranked.filter(({ scale }) => scale === null).length,
      ...{ targetModules, baseModel },
    };
    return { adapter };
  } catch (error) {
    const isRejection =
      error instanceof SafetensorsError &&
      (error.code === 'SAFETENSORS_MERGE_UNSUPPORTED' ||
        error.code === 'SAFETENSORS_INVALID_ADAPTER');
    if (!isRejection) throw error;
    return { adapter: null, refusal: error.message };
  }
}

/**
 * A problem of a tensor that safetensors cannot hold: the message without the names of file and tensor at its start.
 */
function unsupportedTensor({ message, tensor = '' }: SafetensorsError): UnsupportedTensor {
  const begin = message.indexOf(': expected ');
  return { name: tensor, reason: begin === -1 ? message : message.slice(begin + 2) };
}

/** The logical tensors of a source, or why there are none. */
interface Logical {
  readonly counts: LogicalCounts | null;
  readonly refusal?: string;
}

async function logicalOf(
  checkpoint: AnyCheckpoint,
  tensors: readonly ListedTensor[],
  signal: AbortSignal,
): Promise<Logical> {
  try {
    const model = await logicalModel(checkpoint, tensors, signal);
    return { counts: model && logicalCounts(model) };
  } catch (error) {
    if (!(error instanceof QuantizationError)) throw error;
    return { counts: null, refusal: error.message };
  }
}

/** By code units: the order only has to be stable. */
function byName(a: ListedTensor, b: ListedTensor): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** The tensors that match `--filter`. */
function filtered<Named extends { readonly name: string }>(
  tensors: readonly Named[],
  { filter }: View,
): Named[] {
  return tensors.filter(({ name }) => filter === undefined || filter(name));
}

function chosen(tensors: readonly ListedTensor[], view: View): ListedTensor[] {
  const { order } = view;
  const found = filtered(tensors, view);
  if (order === 'name') found.sort(byName);
  if (order === 'size') found.sort((a, b) => b.byteLength - a.byteLength);
  return found;
}

export function treeResult({ label, leaf, children, ...counts }: TreeNode): TreeResult {
  return {
    ...{ name: label, ...counts },
    ...(leaf === null ? {} : { dtype: leaf.dtype, shape: leaf.shape }),
    ...(children.length === 0 ? {} : { children: children.map(treeResult) }),
  };
}

function distributionOf(extra: PlainValue): DistributionResult {
  const info = extra as ReadonlyMap<string, PlainValue>;
  const pieces = info.get('pieces') as ReadonlyMap<string, readonly string[]>;
  return {
    ranks: info.get('ranks') as number,
    pieces: [...pieces.values()].reduce((sum, { length }) => sum + length, 0),
    isComplete: info.get('isComplete') as boolean | null,
    objects: info.get('objects') as readonly string[],
  };
}

async function modelResult(
  checkpoint: AnyCheckpoint,
  view: View,
  signal: AbortSignal,
  kind = 'model',
): Promise<ModelResult> {
  const { format, metadata } = checkpoint;
  const { files, listed, dtypes, ...summary } = await listModel(checkpoint, signal);
  const { parameters, totalParameters, quantization } = summary;
  const logical = await logicalOf(checkpoint, listed, signal);
  const described = await adapterOf(checkpoint, listed, signal);
  const { adapter } = described;
  const tensors = chosen(listed, view);
  const distribution = format === 'dcp' ? distributionOf(await checkpoint.extra()) : undefined;
  return {
    path: checkpoint.path as string,
    format,
    kind: adapter === null ? kind : 'adapter',
    adapter,
    ...(distribution === undefined ? {} : { distribution }),
    byteLength: files.reduce((sum, file) => sum + file.byteLength, 0),
    tensorCount: listed.length,
    ...{ parameters, totalParameters, quantization, logical: logical.counts },
    dtypes: Object.fromEntries(dtypes),
    files,
    metadata: metadata === null ? null : Object.fromEntries(metadata),
    warnings: warningsOf(checkpoint, dtypes.keys(), logical, described),
    unsupported: filtered(checkpoint.problems.map(unsupportedTensor), view),
    ...(view.isTree ? { tree: treeOf(tensors).map(treeResult) } : { tensors }),
  };
}

function failure(error: Error): FailedModel {
  const { code } = error as NodeJS.ErrnoException;
  return { code: String(code), message: error.message };
}

export async function inspectSource(
  source: string,
  view: View,
  choices: { readonly foreign: ForeignChoices; readonly choice: SourceChoice },
  signal: AbortSignal,
): Promise<InspectResult> {
  const opening = { ...choices, signal, storage: 'read', skipFailed: true } as const;
  try {
    return await inspectOpened(source, await openSource(source, opening), view, signal);
  } catch (error) {
    const kind = incompleteKind(error);
    if (kind === undefined) throw error;
    return await inspectOpened(
      source,
      await openForInspection(source, opening),
      view,
      signal,
      kind,
    );
  }
}

/** Inspects a source, and closes it. */
async function inspectOpened(
  source: string,
  opened: OpenedSource | OpenedParts,
  view: View,
  signal: AbortSignal,
  kind?: string,
): Promise<InspectResult> {
  try {
    const isParts = 'parts' in opened;
    if (!isParts && !isPipeline(opened)) {
      return { source, ...(await modelResult(opened, view, signal, kind)) };
    }
    const components = new Map<string, ModelResult>();
    const failed = new Map<string, Error>();
    for (const [name, model] of isParts ? opened.parts : opened.models) {
      try {
        const ofPart = isParts ? partKind(name) : undefined;
        components.set(name, await modelResult(model, view, signal, ofPart));
      } catch (error) {
        if (signal.aborted || !isOfFile(error)) throw error;
        failed.set(name, error);
      }
    }
    for (const [name, error] of opened.failed) failed.set(name, error);
    const sum = (of: 'byteLength' | 'parameters'): number =>
      [...components.values()].reduce((total, model) => total + model[of], 0);
    const totals = { byteLength: sum('byteLength'), parameters: sum('parameters') };
    return {
      source,
      format: isParts ? 'safetensors' : 'diffusers',
      kind: isParts ? (kind ?? '') : 'pipeline',
      ...totals,
      missing: isParts ? [] : opened.missing,
      failed: Object.fromEntries(Array.from(failed, ([name, error]) => [name, failure(error)])),
      components: Object.fromEntries(components),
    };
  } finally {
    if (!('parts' in opened)) opened.close();
  }
}

/** Whether any model of the source has a tensor that `--filter` names. */
export function isAnyTensor(result: InspectResult): boolean {
  const models = 'components' in result ? Object.values(result.components) : [result];
  return models.some(({ tensors, tree, unsupported }) => {
    return (tensors ?? tree ?? []).length + unsupported.length > 0;
  });
}
