/**
 * The index of a sharded checkpoint, `model.safetensors.index.json`: which tensor is in which shard.
 * Names stay in the index's bytes and are looked up there, as in a header.
 */

import { requireInteger } from '../../errors/arguments.js';
import { FormatError } from '../../errors/errors.js';
import type { FileContents } from '../../header/file-contents.js';
import { Header } from '../../header/header.js';
import { hashString, processHashKey } from '../../header/json/key-hash.js';
import { NameTable } from '../../header/json/name-table.js';
import { CLOSE_BRACE, type JsonReader, QUOTE } from '../../header/json/reader.js';
import { skipValue } from '../../header/json/skip.js';
import { SortedNames } from '../../header/json/sorted-names.js';
import { decodeString } from '../../header/json/strings.js';
import { runSync, type Work } from '../../work/work.js';
import { ITEMS_PER_YIELD } from '../../work/yielding.js';
import { IndexParser } from './checkpoint-index-parser.js';
import { deltaIndex, incompleteModelError } from './incomplete-models.js';

/**
 * Ten times the limit of `huggingface_hub`, which 138 000 tensors already exceed.
 */
export const DEFAULT_MAX_INDEX_BYTE_LENGTH: number = 100 * 2 ** 20;

/** Positions inside an index are kept in 32 bits. */
const LARGEST_INDEX_BYTE_LENGTH = 2 ** 32 - 1;

/** How to read an index. */
export interface ParseIndexOptions {
  /** Longest index to accept, in bytes, up to 2^32 - 1; 100 MiB unless given. */
  readonly maxIndexByteLength?: number | undefined;
  /** The file, for messages. */
  readonly path?: string | undefined;
  /** The end of the shards' names; `.safetensors` unless given. */
  readonly shardExtension?: string | undefined;
  /** Whether to accept the index of a delta, to inspect it. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/** Throws `SAFETENSORS_INDEX_TOO_LARGE` when an index is longer than the limit, before it is read. */
export function checkIndexByteLength(byteLength: number, options: ParseIndexOptions): void {
  const { maxIndexByteLength: limit = DEFAULT_MAX_INDEX_BYTE_LENGTH, path } = options;
  requireInteger('maxIndexByteLength', limit, 0, LARGEST_INDEX_BYTE_LENGTH);
  if (byteLength <= limit) return;
  const message = `expected an index of at most ${limit} bytes, found ${byteLength}`;
  throw new FormatError('SAFETENSORS_INDEX_TOO_LARGE', message, { path });
}

/**
 * Parses and checks an index. Takes ownership of `json`; don't modify it afterwards.
 *
 * @throws FormatError `SAFETENSORS_INVALID_INDEX` unless it is strict JSON of the form
 *   `{ "weight_map": { name: shard } }` with every key once; `SAFETENSORS_UNSAFE_SHARD_NAME`,
 *   `SAFETENSORS_INDEX_TOO_LARGE`; `SAFETENSORS_DELTA`
 */
export function parseCheckpointIndex(
  json: Uint8Array,
  options: ParseIndexOptions = {},
): CheckpointIndex {
  return runSync(parseIndexYielding(json, options));
}

/** As {@link parseCheckpointIndex}, as work that yields. */
export function* parseIndexYielding(
  json: Uint8Array,
  options: ParseIndexOptions,
): Work<CheckpointIndex> {
  checkIndexByteLength(json.length, options);
  const parser = new IndexParser(json, options.path, options.shardExtension);
  yield* parser.parse();
  const names = parser.isSorted
    ? new SortedNames(parser.reader, parser.nameAt)
    : yield* nameTableOf(parser);
  const index = new CheckpointIndex(parser, names);
  const found = options.acceptsIncomplete === true ? null : deltaIndex(index);
  if (found !== null) throw incompleteModelError(found, 'index', options.path);
  return index;
}

/** The table of unsorted names; refuses duplicates. */
function* nameTableOf(parser: IndexParser): Work<NameTable> {
  const { reader, nameAt, size } = parser;
  const nameHash = new Uint32Array(size);
  const names = new NameTable(reader.bytes, nameAt, nameHash, size);
  const hashKey = processHashKey(reader.bytes.length);
  // Entries are numbers in columns: there are no items for `forEachYielding`.
  for (let entry = 0; entry < size; entry++) {
    if (entry % ITEMS_PER_YIELD === 0) yield;
    reader.at = (nameAt[entry] as number) - 1;
    nameHash[entry] = hashString(reader, reader.readString(), hashKey);
    if (names.add(entry) !== -1) parser.failRepeated(nameAt[entry] as number);
  }
  return names;
}

/** A valid index. Tensors are entries, numbered 0 to `size` - 1 in the order of the index. */
export class CheckpointIndex {
  /** Number of tensors. */
  readonly size: number;
  /** Shards, relative to the index's folder, in the order in which the index names them first. */
  readonly shards: readonly string[];
  readonly #reader: JsonReader;
  readonly #nameAt: Uint32Array;
  readonly #shardOf: Uint32Array;
  readonly #names: NameTable | SortedNames;
  readonly #metadataAt: number;
  readonly #dtypeAt: number;
  #metadata: ReadonlyMap<string, string> | null = null;
  readonly #jsonKeys = new Set<string>();
  #byShard: Uint32Array[] | null = null;
  /** What `placesIn` has found: listing, counting and verifying each need all places. */
  readonly #places = new WeakMap<Header, { readonly shard: number; readonly places: Int32Array }>();

  /** Only `parseCheckpointIndex` makes indexes. */
  constructor(parser: IndexParser, names: NameTable | SortedNames) {
    this.size = parser.size;
    this.shards = Object.freeze(parser.shards);
    this.#reader = parser.reader;
    this.#nameAt = parser.nameAt;
    this.#shardOf = parser.shardOf;
    this.#names = names;
    this.#metadataAt = parser.metadataAt;
    this.#dtypeAt = parser.dtypeAt;
  }

  /**
   * The metadata in the index's order; null without metadata. Strings as they are; any other value,
   * such as `total_size`, as its JSON text. Decoded on first use.
   */
  get metadata(): ReadonlyMap<string, string> | null {
    if (this.#metadata === null && this.#metadataAt !== -1) this.#metadata = this.#decodeMetadata();
    return this.#metadata;
  }

  /** The dtype that a few indexes name next to their metadata; null without such a text. */
  get dtype(): string | null {
    return this.#dtypeAt === -1 ? null : decodeString(this.#reader.bytes, this.#dtypeAt);
  }

  /** Keys whose values are not strings: `metadata` has their JSON text. */
  get jsonKeys(): ReadonlySet<string> {
    return this.metadata === null ? new Set() : this.#jsonKeys;
  }

  #decodeMetadata(): Map<string, string> {
    const metadata = new Map<string, string>();
    const reader = this.#reader;
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    reader.at = this.#metadataAt;
    if (!reader.enter(CLOSE_BRACE)) return metadata;
    do {
      const key = decodeString(reader.bytes, reader.readKey());
      const isString = reader.peek() === QUOTE;
      const begin = reader.at;
      skipValue(reader, 2);
      if (!isString) this.#jsonKeys.add(key);
      metadata.set(
        key,
        isString
          ? decodeString(reader.bytes, begin + 1)
          : decoder.decode(reader.bytes.subarray(begin, reader.at)),
      );
    } while (reader.hasNext(CLOSE_BRACE));
    return metadata;
  }

  /** Entry of a tensor's name; -1 if the index lacks it. */
  find(name: string): number {
    return this.#names.find(name);
  }

  /** The entries of a shard in the order of the index. */
  entriesOf(shard: number): Uint32Array {
    this.#byShard ??= this.#groupByShard();
    return this.#byShard[shard] as Uint32Array;
  }

  /**
   * For each of `entriesOf` the entry of the shard's contents that has its name, -1 if it is missing there; don't
   * modify the array. Writers sort a shard by dtype, then by name, and the index by name: its entries go through the
   * dtypes of the shard in turns. So the entries after the last ones found in two dtypes are compared first; mostly no
   * lookup is needed.
   */
  placesIn(shard: number, contents: FileContents): Int32Array {
    const entries = this.entriesOf(shard);
    if (!(contents instanceof Header)) {
      return Int32Array.from(entries, (entry) => contents.find(this.name(entry)));
    }
    const known = this.#places.get(contents);
    if (known?.shard === shard) return known.places;
    const places = this.#placesInHeader(entries, contents);
    this.#places.set(contents, { shard, places });
    return places;
  }

  #placesInHeader(entries: Uint32Array, header: Header): Int32Array {
    const reader = this.#reader;
    const places = new Int32Array(entries.length);
    let next = 0;
    let other = 0;
    let isTurn = false;
    for (let i = 0; i < entries.length; i++) {
      const nameAt = this.#nameAt[entries[i] as number] as number;
      // As long as the dtypes take turns, they are expected to.
      const expected = isTurn ? other : next;
      const unexpected = isTurn ? next : other;
      let place = expected;
      other = unexpected;
      if (!header.isNamed(expected, reader, nameAt)) {
        isTurn = !isTurn;
        place = unexpected;
        other = expected;
        if (!header.isNamed(place, reader, nameAt)) {
          reader.at = nameAt - 1;
          place = header.findString(reader, reader.readString());
        }
      }
      next = place === -1 ? expected : place + 1;
      places[i] = place;
    }
    return places;
  }

  /** Name of an entry. */
  name(entry: number): string {
    return this.#names.name(entry);
  }

  /** All names in the order of the index; a new array. */
  names(): string[] {
    return this.#names.names();
  }

  /** All names sorted by their UTF-8 bytes, as in the reference; a new array. */
  sortedNames(): string[] {
    return this.#names.sortedNames();
  }

  /** The shard of an entry: a position in `shards`. */
  shardOf(entry: number): number {
    return this.#shardOf[entry] as number;
  }

  #groupByShard(): Uint32Array[] {
    const counts = new Uint32Array(this.shards.length);
    for (let entry = 0; entry < this.size; entry++) {
      const shard = this.#shardOf[entry] as number;
      counts[shard] = (counts[shard] as number) + 1;
    }
    const groups = Array.from(counts, (count) => new Uint32Array(count));
    // Filled from the end: what is left of a count is the place of the entry.
    for (let entry = this.size - 1; entry >= 0; entry--) {
      const shard = this.#shardOf[entry] as number;
      const place = (counts[shard] as number) - 1;
      counts[shard] = place;
      (groups[shard] as Uint32Array)[place] = entry;
    }
    return groups;
  }
}
