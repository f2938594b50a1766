/**
 * The result of `parseSafetensorsMetadata`: headers and index as objects, in the form of `@huggingface/hub`.
 * Strangers choose the keys, `__proto__` among them, so the objects have no prototype.
 */

import {
  type CountedShard,
  declaredParameters,
  parametersByDtype,
} from '../../file/hub/parameter-count.js';
import { quantizationOf } from '../../file/hub/quantization.js';
import type { CheckpointIndex } from '../../file/shards/checkpoint-index.js';
import type { Dtype } from '../../header/dtype.js';
import type { Header } from '../../header/header.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';

/** A tensor's description in a header. */
export interface SafetensorsTensorInfo {
  /** Dtype, as spelled in the header. */
  dtype: Dtype;
  /** Dimensions in elements, outermost first; empty for a scalar. */
  shape: number[];
  /** Offset of the first byte and of the byte after the last, from the end of the header. */
  data_offsets: [begin: number, end: number];
}

/** The number of parameters in some metadata. */
export interface DeclaredParameters {
  /** The number; tied tensors count once. */
  total_parameters?: string | number;
}

/** Metadata of a file or an index. Those of an index may have numbers, as `total_size`. */
export type SafetensorsMetadata = DeclaredParameters & Record<string, string>;

/** The header of a file: its tensors by name, in the order of the header. */
export type SafetensorsFileHeader = Record<string, SafetensorsTensorInfo> & {
  /** The metadata; null if the header has null. */
  __metadata__?: SafetensorsMetadata;
};

/** The index of a model in several files. */
export interface SafetensorsIndexJson {
  /** The dtype, in some indexes. */
  dtype?: string;
  /** The metadata, without values that are lists or objects. */
  metadata?: SafetensorsMetadata;
  /** The shard of every tensor. Left out above 200 000 tensors or 24 million characters: it costs memory. */
  weight_map?: Record<string, string>;
}

/** The headers of all shards, by their names in the index. */
export type SafetensorsShardedHeaders = Record<string, SafetensorsFileHeader>;

/** Members of both kinds of results. */
export interface Counts {
  /** Parameters by dtype, with `computeParametersCount`. */
  parameterCount?: Partial<Record<Dtype, number>>;
  /** `total_parameters` of the metadata, at most the sum of `parameterCount`; with `computeParametersCount`. */
  parameterTotal?: number;
  /** The file, or the index and its shards in the order in which it names them. */
  filepaths: string[];
}

/** Result of `parseSafetensorsMetadata` for a model of one file. */
export interface SafetensorsSingleFile extends Counts {
  /** Tells the two kinds of results apart. */
  sharded: false;
  /** The file's header. */
  header: SafetensorsFileHeader;
}

/** Result of `parseSafetensorsMetadata` for a model in several files. */
export interface SafetensorsShards extends Counts {
  /** Tells the two kinds of results apart. */
  sharded: true;
  /** The index. */
  index: SafetensorsIndexJson;
  /** The headers of the shards. */
  headers: SafetensorsShardedHeaders;
}

/** Result of `parseSafetensorsMetadata`. */
export type SafetensorsParseFromRepo = SafetensorsSingleFile | SafetensorsShards;

/** Result of `parseSafetensorsMetadata` with `computeParametersCount`. */
export type CountedParseFromRepo = SafetensorsParseFromRepo &
  Pick<Required<SafetensorsParseFromRepo>, 'parameterCount'>;

/** Most tensors for a result with a weight map. */
const MAX_WEIGHT_MAP_ENTRIES = 200_000;

/** Most characters of names and shards for a result with a weight map. */
const MAX_WEIGHT_MAP_LENGTH = 24_000_000;

/** A header that was read, and its JSON as objects. */
export interface ReadShard extends CountedShard {
  readonly record: SafetensorsFileHeader;
}

/** An index that was read, and the same as objects. */
export interface ReadIndex {
  readonly index: CheckpointIndex;
  readonly record: SafetensorsIndexJson;
}

/** A model whose headers were all read. */
export interface ReadModel {
  /** Null for a model of one file. */
  readonly index: ReadIndex | null;
  readonly shards: readonly ReadShard[];
  /** As in the result. */
  readonly filepaths: string[];
}

/** Settings for counting parameters. */
interface Counting {
  /** The parsed `config.json`; undefined if absent. */
  readonly config: unknown;
}

/** The result for a model; with `counting` it has counts. */
export function* resultYielding(
  model: ReadModel,
  counting: Counting | null,
): Work<SafetensorsParseFromRepo> {
  const { index, shards, filepaths } = model;
  if (index === null) {
    const { record: header } = shards[0] as ReadShard;
    const counts = yield* countsOf(model, counting, header.__metadata__);
    return { sharded: false, header, ...counts, filepaths };
  }
  const headers = recordOf(shards.map((shard) => [shard.name, shard.record]));
  const counts = yield* countsOf(model, counting, index.record.metadata);
  return { sharded: true, index: index.record, headers, ...counts, filepaths };
}

function* countsOf(
  { index, shards }: ReadModel,
  counting: Counting | null,
  metadata: SafetensorsMetadata | null | undefined,
): Work<Pick<Counts, 'parameterCount' | 'parameterTotal'>> {
  if (counting === null) return {};
  const counts = yield* parametersByDtype(
    shards,
    index?.index ?? null,
    quantizationOf(counting.config),
  );
  const sum = [...counts.values()].reduce((total, count) => total + count, 0);
  // The Hub sends 0 for a missing count.
  const total = declaredParameters(metadata?.total_parameters || undefined, sum);
  return { parameterCount: recordOf(counts), ...(total === null ? {} : { parameterTotal: total }) };
}

/** Pairs as an object without prototype. */
export function recordOf<Value>(pairs: Iterable<readonly [string, Value]>): Record<string, Value> {
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
export function* indexRecord(index: CheckpointIndex): Work<SafetensorsIndexJson> {
  const { dtype } = index;
  const metadata = metadataRecord(index);
  const weightMap = yield* weightMapRecord(index);
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
  return scalars.length === 0 ? null : (recordOf(scalars) as SafetensorsMetadata);
}

function* weightMapRecord(index: CheckpointIndex): Work<Record<string, string> | null> {
  if (index.size > MAX_WEIGHT_MAP_ENTRIES) return null;
  const names = index.names();
  const map: Record<string, string> = Object.create(null);
  let length = 0;
  yield* forEachYielding(names.entries(), ([entry, name]) => {
    const shard = index.shards[index.shardOf(entry)] as string;
    length += name.length + shard.length;
    map[name] = shard;
  });
  return length > MAX_WEIGHT_MAP_LENGTH ? null : map;
}
