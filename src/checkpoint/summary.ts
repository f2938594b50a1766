/** What a checkpoint holds: tensors, parameters and bytes, per dtype and by shard. */

import { closeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SafetensorsFile } from '../file/file.js';
import type { Dtype } from '../format/dtype.js';
import type { Header } from '../format/header.js';
import { elementCountOf } from '../format/shape.js';
import type { Multiplier } from '../hub/parameter-packing.js';
import { type Quantization, quantizationOf } from '../hub/quantization.js';
import { openRegularFile, readerOf, readFully } from '../io/opened-file.js';
import type { LazyShards } from './lazy-shards.js';

/** Counts of some tensors. */
export interface TensorCounts {
  /** Number of tensors, those included that hold no parameters. */
  readonly tensors: number;
  /** Number of parameters by the Hub's rules: packed ones each, neither scalars nor scales. */
  readonly parameters: number;
  /** Length of the tensors in bytes. */
  readonly byteLength: number;
}

/** Counts of a shard, or of a whole checkpoint. */
export interface DtypeCounts extends TensorCounts {
  /** The same per dtype, of those that occur. */
  readonly dtypes: ReadonlyMap<Dtype, TensorCounts>;
}

/** Result of `Checkpoint.summary`. */
export interface CheckpointSummary extends DtypeCounts {
  /** The same by shard. */
  readonly shards: ReadonlyMap<string, DtypeCounts>;
  /**
   * `total_parameters` of the metadata, at most `parameters`; null when there is none. Writers count
   * tied tensors once in it.
   */
  readonly totalParameters: number | null;
  /** Method by which packed parameters were counted, from `config.json`; null without one. */
  readonly quantization: string | null;
}

/** As on the Hub: a longer configuration counts as none. */
const MAX_CONFIG_BYTE_LENGTH = 10_000_000;

/** Cost of a configuration's patterns times bytes of headers; above, it counts as none. */
const MAX_MATCHING_WORK = 1e10;

class Counter implements DtypeCounts {
  tensors = 0;
  parameters = 0;
  byteLength = 0;
  readonly dtypes = new Map<Dtype, { tensors: number; parameters: number; byteLength: number }>();

  add(dtype: Dtype, tensors: number, parameters: number, byteLength: number): void {
    const counts = this.dtypes.get(dtype) ?? { tensors: 0, parameters: 0, byteLength: 0 };
    this.dtypes.set(dtype, counts);
    for (const sum of [this, counts]) {
      sum.tensors += tensors;
      sum.parameters += parameters;
      sum.byteLength += byteLength;
    }
  }

  addAll(other: Counter): void {
    for (const [dtype, { tensors, parameters, byteLength }] of other.dtypes) {
      this.add(dtype, tensors, parameters, byteLength);
    }
  }
}

/** Opens every shard and counts what its header says. */
export function summarize(shards: LazyShards): CheckpointSummary {
  shards.requireOpen();
  const headers = Array.from(shards, (file) => SafetensorsFile.headerOf(file));
  const { index, path, shards: files } = shards.files;
  const quantization = usable(readQuantization(path), headers);
  const dtypeOf = (name: string): Dtype | undefined => {
    const entry = index === null ? -1 : index.find(name);
    if (index !== null && entry === -1) return undefined;
    const header = headers[index === null ? 0 : index.shardOf(entry)] as Header;
    const found = header.find(name);
    return found === -1 ? undefined : header.dtype(found);
  };
  const multiplier = quantization?.multiplier(dtypeOf) ?? (() => 1);
  const total = new Counter();
  const byShard = new Map<string, DtypeCounts>();
  headers.forEach((header, shard) => {
    const counter = count(header, multiplier);
    total.addAll(counter);
    byShard.set((files[shard] as { name: string }).name, counter);
  });
  const { tensors, parameters, byteLength, dtypes } = total;
  const metadata = index === null ? headers[0]?.metadata : index.metadata;
  const totalParameters = declaredParameters(metadata?.get('total_parameters'), parameters);
  const method = quantization === null ? null : (quantization.method ?? 'unknown');
  return {
    tensors,
    parameters,
    byteLength,
    dtypes,
    shards: byShard,
    totalParameters,
    quantization: method,
  };
}

function count(header: Header, multiplier: Multiplier): Counter {
  const counter = new Counter();
  for (let entry = 0; entry < header.size; entry++) {
    const dtype = header.dtype(entry);
    const byteLength = header.end(entry) - header.begin(entry);
    counter.add(dtype, 1, parametersOf(header, entry, dtype, multiplier), byteLength);
  }
  return counter;
}

function parametersOf(header: Header, entry: number, dtype: Dtype, multiplier: Multiplier): number {
  // Exponents are only ever scales of others.
  if (dtype === 'F8_E8M0') return 0;
  const shape = header.shape(entry);
  if (shape.length === 0) return 0;
  return Math.round(elementCountOf(shape) * multiplier({ name: header.name(entry), dtype }));
}

function declaredParameters(text: string | undefined, counted: number): number | null {
  const value = Number.parseInt(text ?? '', 10);
  return Number.isFinite(value) && value > 0 ? Math.min(value, counted) : null;
}

/** The configuration beside the checkpoint; whatever is wrong with it, it counts as none. */
function readQuantization(path: string): Quantization | null {
  try {
    const config = join(dirname(path), 'config.json');
    const file = openRegularFile(config, config);
    try {
      if (file.byteLength > MAX_CONFIG_BYTE_LENGTH) return null;
      const bytes = new Uint8Array(file.byteLength);
      readFully(readerOf(file), bytes, 0, config);
      return quantizationOf(JSON.parse(new TextDecoder().decode(bytes)));
    } finally {
      closeSync(file.fd);
    }
  } catch {
    return null;
  }
}

function usable(
  quantization: Quantization | null,
  headers: readonly Header[],
): Quantization | null {
  if (quantization === null) return null;
  const bytes = headers.reduce((sum, { json }) => sum + json.length, 0);
  return quantization.matchingCost * bytes > MAX_MATCHING_WORK ? null : quantization;
}
