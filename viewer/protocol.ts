/**
 * The calls from the page to its worker: arguments, results and progress of each, which `postMessage` copies. Every
 * call has a number, by which its progress and its result come back and by which it is cancelled.
 */

import type { Axis } from './selection.js';
import type { DifferProgress, NameDifference, ValueDifferences } from './worker/compare.js';
import type { ConfigDifference } from './worker/config.js';
import type { Found, Order } from './worker/find.js';
import type { Heat, HeatWindow } from './worker/heat.js';
import type { Overview, TensorList } from './worker/info.js';
import type { LayerStatistics, LayersProgress } from './worker/layers.js';
import type { AdapterFacts, LoraPair } from './worker/lora.js';
import type { Overlap } from './worker/overlap.js';
import type { TensorPair } from './worker/pair.js';
import type { OpenProgress, Place, SourceId } from './worker/sources.js';
import type { Extent, Progress, TensorStatistics } from './worker/statistics.js';
import type { Branches, TreeRow } from './worker/tree.js';
import type { ByteMap, MapArgs } from './worker/treemap.js';
import type { Cells, NamedTensorSpec } from './worker/values.js';

/** A tensor of a source. */
export interface OneTensor {
  readonly id: SourceId;
  readonly tensor: string;
}

/** All calls. */
export interface Calls {
  open: {
    args: { place: Place; token: string | null };
    result: { id: SourceId; overview: Overview; list: TensorList };
    progress: OpenProgress;
  };
  close: { args: { id: SourceId }; result: null };
  find: { args: { id: SourceId; text: string; order: Order }; result: Found };
  /** The lines below a node; below null the outermost. */
  tree: { args: { id: SourceId; node: number | null }; result: readonly TreeRow[] };
  /** The lines that lead to a tensor. */
  branches: { args: OneTensor; result: Branches };
  tensor: { args: OneTensor; result: NamedTensorSpec };
  /** A part of a tensor for the grid. */
  cells: { args: OneTensor & { axes: readonly Axis[]; form: 'values' | 'bits' }; result: Cells };
  /** A picture of a part of a selection that keeps two axes. */
  heat: {
    args: OneTensor & { axes: readonly Axis[]; window: HeatWindow; minus: SourceId | null };
    result: Heat;
  };
  /** A tensor of two sources. */
  pair: { args: OneTensor & { other: SourceId }; result: TensorPair | null };
  /** Statistics of all tensors. */
  layers: {
    args: { id: SourceId; whole: boolean };
    result: LayerStatistics;
    progress: LayersProgress;
  };
  /** The map of bytes. */
  map: { args: { id: SourceId; map: MapArgs }; result: ByteMap };
  /** Names of two sources side by side. */
  names: { args: { id: SourceId; other: SourceId }; result: NameDifference };
  /** Configurations of two sources side by side; null unless both have one. */
  config: { args: { id: SourceId; other: SourceId }; result: ConfigDifference | null };
  /** Differences of values of two sources. */
  differ: {
    args: { id: SourceId; other: SourceId; whole: boolean };
    result: ValueDifferences;
    progress: DifferProgress;
  };
  /** Cosine similarity of two models' changes to their base. */
  overlap: {
    args: { id: SourceId; a: SourceId; b: SourceId; tensors: readonly string[]; whole: boolean };
    result: Overlap;
  };
  /** What an adapter declares; null for other models. */
  adapter: { args: { id: SourceId }; result: AdapterFacts | null };
  /** The pairs of a LoRA adapter, next to its base if there is one. */
  lora: { args: { id: SourceId; base: SourceId | null }; result: LoraPair[] };
  statistics: {
    args: OneTensor & { extent: Extent };
    result: TensorStatistics;
    progress: Progress;
  };
  /** A part of a tensor to copy. */
  table: { args: OneTensor & { axes: readonly Axis[]; form: 'csv' | 'text' }; result: string };
}

export type CallName = keyof Calls;
export type ArgsOf<Name extends CallName> = Calls[Name]['args'];
export type ResultOf<Name extends CallName> = Calls[Name]['result'];
export type ProgressOf<Name extends CallName> = Calls[Name] extends { progress: infer P }
  ? P
  : never;

/** From the page to the worker. */
export type Request =
  | { readonly call: number; readonly name: CallName; readonly args: unknown }
  | { readonly cancel: number };

/** An error, as text: objects of classes don't survive `postMessage`. */
export interface Failure {
  /** The library's code; null for others. */
  readonly code: string | null;
  readonly message: string;
  /** What to do about it; null when the message says it. */
  readonly advice: string | null;
  /** Whether the Hub may answer to somebody with a token. */
  readonly needsToken: boolean;
}

/** From the worker to the page. */
export type Reply =
  | { readonly call: number; readonly result: unknown }
  | { readonly call: number; readonly progress: unknown }
  | { readonly call: number; readonly failure: Failure };
