/**
 * What `parseSafetensorsMetadata` gives: headers and index as objects in the form that `@huggingface/hub`
 * gives them. Strangers choose the keys, `__proto__` among them, so the objects have no prototype.
 */

import type { Dtype } from '../../format/dtype.js';
import type { Header } from '../../format/header.js';
import type { CheckpointIndex } from '../../shards/checkpoint-index.js';

/** The name of a tensor. */
export type TensorName = string;

/** What a header says about a tensor. */
export interface TensorInfo {
  /** Dtype, as spelled in the header. */
  dtype: Dtype;
  /** Dimensions in elements, outermost first; empty for a scalar. */
  shape: number[];
  /** Offset of the first byte and of the byte after the last, from the end of the header. */
  data_offsets: [begin: number, end: number];
}

/** Metadata of a file or an index. Those of an index may have numbers, as `total_size`. */
export type SafetensorsMetadata = { total_parameters?: string | number } & Record<string, string>;

/** The header of a file: its tensors by name, in the order of the header. */
export type SafetensorsFileHeader = Record<TensorName, TensorInfo> & {
  /** The metadata; null where the header says so. */
  __metadata__?: SafetensorsMetadata;
};

/** The index of a model in several files. */
export interface SafetensorsIndexJson {
  /** What some indexes say of the dtype. */
  dtype?: string;
  /** The metadata, without values that are lists or objects. */
  metadata?: SafetensorsMetadata;
  /** The shard of every tensor. Left out above 200 000 tensors or 24 million characters: it costs memory. */
  weight_map?: Record<TensorName, string>;
}

/** The headers of all shards, by their names in the index. */
export type SafetensorsShardedHeaders = Record<string, SafetensorsFileHeader>;

/** What a result has in either case. */
interface Counted {
  /** Parameters by dtype, with `computeParametersCount`. */
  parameterCount?: Partial<Record<Dtype, number>>;
  /** `total_parameters` of the metadata, at most the sum of `parameterCount`; with `computeParametersCount`. */
  parameterTotal?: number;
  /** The file, or the index and its shards in the order in which it names them. */
  filepaths: string[];
}

/** Result of `parseSafetensorsMetadata` for a model of one file. */
export interface SafetensorsSingleFile extends Counted {
  sharded: false;
  /** The file's header. */
  header: SafetensorsFileHeader;
}

/** Result of `parseSafetensorsMetadata` for a model in several files. */
export interface SafetensorsShards extends Counted {
  sharded: true;
  /** The index. */
  index: SafetensorsIndexJson;
  /** The headers of the shards. */
  headers: SafetensorsShardedHeaders;
}

/** Result of `parseSafetensorsMetadata`. */
export type SafetensorsParseFromRepo = SafetensorsSingleFile | SafetensorsShards;

/** Most tensors of an index whose weight map is given. */
const MAX_WEIGHT_MAP_ENTRIES = 200_000;

/** Most characters of names and shards in a weight map that is given. */
const MAX_WEIGHT_MAP_LENGTH = 24_000_000;

/** Pairs as an object without prototype. */
export function record<Value>(pairs: Iterable<readonly [string, Value]>): Record<string, Value> {
  const object: Record<string, Value> = Object.create(null);
  for (const [key, value] of pairs) object[key] = value;
  return object;
}

/** A header's JSON as objects. The header was checked: it has every key once, and the right types. */
export function headerRecord(header: Header): SafetensorsFileHeader {
  const object: object = JSON.parse(header.text);
  for (const value of Object.values(object)) {
    if (value !== null) Object.setPrototypeOf(value, null);
  }
  return Object.setPrototypeOf(object, null);
}

/** An index as objects. */
export function indexRecord(index: CheckpointIndex): SafetensorsIndexJson {
  const { dtype } = index;
  const metadata = metadataRecord(index);
  const weightMap = weightMapRecord(index);
  return Object.setPrototypeOf(
    {
      ...(dtype === null ? {} : { dtype }),
      ...(metadata === null ? {} : { metadata }),
      ...(weightMap === null ? {} : { weight_map: weightMap }),
    },
    null,
  );
}

function metadataRecord(index: CheckpointIndex): SafetensorsMetadata | null {
  const { metadata, jsonKeys } = index;
  const values = Array.from(metadata ?? [], ([key, text]): [string, unknown] => [
    key,
    jsonKeys.has(key) ? JSON.parse(text) : text,
  ]);
  const scalars = values.filter(([, value]) => typeof value !== 'object' || value === null);
  return scalars.length === 0 ? null : (record(scalars) as SafetensorsMetadata);
}

function weightMapRecord(index: CheckpointIndex): Record<string, string> | null {
  if (index.size > MAX_WEIGHT_MAP_ENTRIES) return null;
  const names = index.names();
  const map: Record<string, string> = Object.create(null);
  let length = 0;
  for (const [entry, name] of names.entries()) {
    const shard = index.shards[index.shardOf(entry)] as string;
    length += name.length + shard.length;
    map[name] = shard;
  }
  return length > MAX_WEIGHT_MAP_LENGTH ? null : map;
}
