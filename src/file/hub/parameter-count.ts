/**
 * Counts tensors, parameters and bytes of a checkpoint per dtype and shard, as the Hub does: by the
 * headers, the index and the parsed `config.json`, wherever these come from.
 */

import type { Dtype } from '../../header/dtype.js';
import type { FileContents } from '../../header/file-contents.js';
import { elementCountOf, tensorByteLength } from '../../header/tensor-spec.js';
import type { Work } from '../../work/work.js';
import { ITEMS_PER_YIELD } from '../../work/yielding.js';
import type { CheckpointIndex } from '../shards/checkpoint-index.js';
import { type Multiplier, type Quantization, quantizationOf } from './quantization.js';

/** Most work for a configuration: the cost of its patterns times bytes of headers. */
const MAX_MATCHING_WORK = 1e10;

/** Counts of some tensors. */
export interface TensorCounts {
  /** Number of tensors, including those without parameters. */
  readonly tensors: number;
  /** Number of parameters by the Hub's rules: packed values count one by one, scalars and scales not. */
  readonly parameters: number;
  /** Length of the tensors in bytes. */
  readonly byteLength: number;
}

/** Counts of a shard, or of a whole checkpoint. */
export interface DtypeCounts extends TensorCounts {
  /** The same for every dtype that occurs. */
  readonly dtypes: ReadonlyMap<Dtype, TensorCounts>;
}

/** Result of `Checkpoint.summary`. */
export interface CheckpointSummary extends DtypeCounts {
  /** The same for every shard, by its name. */
  readonly shards: ReadonlyMap<string, DtypeCounts>;
  /**
   * `total_parameters` of the metadata, at most `parameters`; null without that key. It counts tied
   * tensors once.
   */
  readonly totalParameters: number | null;
  /** The method of quantization in `config.json`, by which packed values were counted; null without one. */
  readonly quantization: string | null;
}

/** What counting needs of a header. */
export type CountedHeader = Pick<
  FileContents,
  'size' | 'json' | 'find' | 'name' | 'dtype' | 'shape'
>;

/** A shard whose parameters are counted by dtype. */
interface CountedTensors {
  readonly header: CountedHeader;
}

/** A shard to be counted. */
export interface CountedShard {
  readonly name: string;
  readonly header: FileContents;
}

class Counter implements DtypeCounts {
  tensors = 0;
  parameters = 0;
  byteLength = 0;
  readonly dtypes = new Map<Dtype, { tensors: number; parameters: number; byteLength: number }>();

  add(dtype: Dtype, tensors: number, parameters: number, byteLength: number): void {
    const counts = this.dtypes.get(dtype) ?? { tensors: 0, parameters: 0, byteLength: 0 };
    this.dtypes.set(dtype, counts);
    counts.tensors += tensors;
    counts.parameters += parameters;
    counts.byteLength += byteLength;
    this.tensors += tensors;
    this.parameters += parameters;
    this.byteLength += byteLength;
  }

  addAll(other: Counter): void {
    for (const [dtype, { tensors, parameters, byteLength }] of other.dtypes) {
      this.add(dtype, tensors, parameters, byteLength);
    }
  }
}

/**
 * Counts the parameters of headers.
 *
 * @param index null for a single file
 * @param config the parsed `config.json`; undefined without one
 */
export function countParameters(
  shards: readonly CountedShard[],
  index: CheckpointIndex | null,
  config: unknown,
): CheckpointSummary {
  const quantization = usable(quantizationOf(config), shards);
  const multiplier = multiplierOver(shards, index, quantization);
  const total = new Counter();
  const byShard = new Map<string, DtypeCounts>();
  for (const { name, header } of shards) {
    const counter = count(header, multiplier);
    total.addAll(counter);
    byShard.set(name, { ...counter });
  }
  const { tensors, parameters, byteLength, dtypes } = total;
  const metadata = index === null ? shards[0]?.header.metadata : index.metadata;
  return {
    tensors,
    parameters,
    byteLength,
    dtypes,
    shards: byShard,
    totalParameters: declaredParameters(metadata?.get('total_parameters'), parameters) || null,
    quantization: quantization === null ? null : (quantization.method ?? 'unknown'),
  };
}

/**
 * Parameters by dtype, without dtypes whose tensors all count 0.
 *
 * @param index null for a single file
 * @param quantization null for unquantized weights
 */
export function* parametersByDtype(
  shards: readonly CountedTensors[],
  index: CheckpointIndex | null,
  quantization: Quantization | null,
): Work<Map<Dtype, number>> {
  const multiplier = multiplierOver(shards, index, usable(quantization, shards));
  const counts = new Map<Dtype, number>();
  for (const { header } of shards) {
    // Entries are numbers in columns: there are no items for `forEachYielding`.
    for (let entry = 0; entry < header.size; entry++) {
      if (entry % ITEMS_PER_YIELD === 0) yield;
      const dtype = header.dtype(entry);
      const shape = header.shape(entry);
      const parameters = tensorParameters(header, entry, dtype, shape, multiplier);
      if (parameters !== null) counts.set(dtype, (counts.get(dtype) ?? 0) + parameters);
    }
  }
  return counts;
}

/** Null where every value counts once. */
function multiplierOver(
  shards: readonly CountedTensors[],
  index: CheckpointIndex | null,
  quantization: Quantization | null,
): Multiplier | null {
  if (quantization === null) return null;
  return quantization.multiplier((name) => {
    const entry = index === null ? -1 : index.find(name);
    if (index !== null && entry === -1) return undefined;
    const { header } = shards[index === null ? 0 : index.shardOf(entry)] as CountedTensors;
    const found = header.find(name);
    return found === -1 ? undefined : header.dtype(found);
  });
}

function count(header: FileContents, multiplier: Multiplier | null): Counter {
  const counter = new Counter();
  for (let entry = 0; entry < header.size; entry++) {
    const dtype = header.dtype(entry);
    const shape = header.shape(entry);
    const parameters = tensorParameters(header, entry, dtype, shape, multiplier) ?? 0;
    counter.add(dtype, 1, parameters, tensorByteLength({ dtype, shape }));
  }
  return counter;
}

/** Null for a tensor that holds no parameters of the model, such as scales. */
function tensorParameters(
  header: CountedHeader,
  entry: number,
  dtype: Dtype,
  shape: readonly number[],
  multiplier: Multiplier | null,
): number | null {
  // Exponents are only ever scales of other tensors.
  if (dtype === 'F8_E8M0') return null;
  if (shape.length === 0) return null;
  if (multiplier === null) return elementCountOf(shape);
  const perElement = multiplier({ name: header.name(entry), dtype });
  return perElement === 0 ? null : Math.round(elementCountOf(shape) * perElement);
}

/** The number of parameters that the metadata declare, at most `counted`; null without one. */
export function declaredParameters(value: unknown, counted: number): number | null {
  const declared = typeof value === 'number' ? value : Number.parseInt(String(value), 10);
  return Number.isFinite(declared) && declared >= 0 ? Math.min(declared, counted) : null;
}

function usable(
  quantization: Quantization | null,
  shards: readonly CountedTensors[],
): Quantization | null {
  if (quantization === null) return null;
  const bytes = shards.reduce((sum, { header }) => sum + header.json.length, 0);
  return quantization.matchingCost * bytes > MAX_MATCHING_WORK ? null : quantization;
}
