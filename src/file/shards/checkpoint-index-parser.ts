/** Reads the JSON of an index into columns: names, and numbers of shards. */
import { FormatError, quoteName } from '../../errors/errors.js';
import { HEAD_BYTE_LENGTH, likeness } from '../../header/foreign-formats.js';
import { ObjectKeys } from '../../header/json/duplicate-keys.js';
import { CLOSE_BRACE, COLON, JsonReader, OPEN_BRACE, QUOTE } from '../../header/json/reader.js';
import { skipValue } from '../../header/json/skip.js';
import { compareJsonStrings, compareStrings, decodeString } from '../../header/json/strings.js';
import type { TextKind } from '../../header/json/utf8.js';
import type { Work } from '../../work/work.js';
import { ITEMS_PER_YIELD } from '../../work/yielding.js';
import { checkShardName } from './shard-paths.js';

/** Most shards that are accepted: looking for each of them on the disk must not take minutes. */
const MAX_SHARD_COUNT = 200_000;

/** The shortest entry, `"":".safetensors",`: more entries do not fit into the bytes. */
const MIN_ENTRY_BYTE_LENGTH = 18;

const INDEX_TEXT: TextKind = {
  noun: 'index',
  syntaxCode: 'SAFETENSORS_INVALID_INDEX',
  utf8Code: 'SAFETENSORS_INVALID_INDEX',
};

const WEIGHT_MAP_KEY = new TextEncoder().encode('weight_map"');
const INDEX_METADATA_KEY = new TextEncoder().encode('metadata"');
const INDEX_DTYPE_KEY = new TextEncoder().encode('dtype"');

/** Goes through the bytes once. */
export class IndexParser {
  /** Over the whole index. */
  readonly reader: JsonReader;
  /** Position of every entry's name after its opening quote. */
  nameAt: Uint32Array;
  /** The shard of every entry: a position in `shards`. */
  shardOf: Uint32Array;
  /** Checked names of the shards, in the order in which they were met. */
  readonly shards: string[] = [];
  /** Number of entries; -1 until the weight map was read. */
  size = -1;
  /** Whether every name is greater than the one before; then none is repeated. */
  isSorted = true;
  /** Position of the metadata's opening brace; -1 without metadata. */
  metadataAt = -1;
  /** Position of the index's dtype, after the opening quote; -1 if it names no dtype. */
  dtypeAt = -1;
  readonly #path: string | undefined;
  readonly #extension: string | undefined;
  /** Shards by every spelling found so far, and by the normal spelling. */
  readonly #numbers = new Map<string, number>();
  /** The shard of the last entry. */
  #shard = -1;
  /** The bytes between the last two names: from the colon to the opening quote of the second. */
  #betweenAt = 0;
  #betweenEnd = 0;

  /** The path is for messages; the extension is that of shards which are not safetensors files. */
  constructor(json: Uint8Array, path: string | undefined, extension?: string) {
    this.reader = new JsonReader(json, { path }, INDEX_TEXT);
    this.#path = path;
    this.#extension = extension;
    const capacity = Math.floor(json.length / MIN_ENTRY_BYTE_LENGTH) + 1;
    this.nameAt = new Uint32Array(capacity);
    this.shardOf = new Uint32Array(capacity);
  }

  /** Reads the whole index; repeated names are all kept. */
  *parse(): Work<void> {
    const reader = this.reader;
    reader.skipByteOrderMark();
    if (reader.peek() !== OPEN_BRACE) this.#failStart();
    const objectAt = reader.at;
    const keys = new ObjectKeys();
    if (reader.enter(CLOSE_BRACE)) {
      do {
        const key = reader.readKey();
        keys.add(key);
        yield* this.#readMember(key);
      } while (reader.hasNext(CLOSE_BRACE));
    }
    reader.expectEnd();
    const repeated = keys.findRepeated(reader, objectAt);
    if (repeated !== -1) this.failRepeated(repeated);
    if (this.size === -1) reader.failAt(0, 'an object with the key "weight_map"', 'none');
    this.nameAt = this.nameAt.slice(0, this.size);
    this.shardOf = this.shardOf.slice(0, this.size);
  }

  *#readMember(key: number): Work<void> {
    const reader = this.reader;
    const isKey = (bytes: Uint8Array): boolean => compareStrings(reader.bytes, key, bytes, 0) === 0;
    const first = reader.peek();
    if (isKey(WEIGHT_MAP_KEY)) yield* this.#readWeightMap();
    else if (first === OPEN_BRACE && isKey(INDEX_METADATA_KEY)) this.#readMetadata();
    else if (first === QUOTE && isKey(INDEX_DTYPE_KEY)) this.dtypeAt = reader.readString();
    else skipValue(reader, 1);
  }

  /** Refuses anything but an object: above all a page or a pointer in its place. */
  #failStart(): never {
    const head = this.reader.bytes.subarray(0, HEAD_BYTE_LENGTH);
    const { looks, context } = likeness(head, { path: this.#path });
    if (looks === '') this.reader.fail('an object');
    throw new FormatError('SAFETENSORS_INVALID_INDEX', `${looks}expected an index`, context);
  }

  #readMetadata(): void {
    const reader = this.reader;
    this.metadataAt = reader.at;
    if (!reader.enter(CLOSE_BRACE)) return;
    const keys = new ObjectKeys();
    do {
      keys.add(reader.readKey());
      skipValue(reader, 2);
    } while (reader.hasNext(CLOSE_BRACE));
    const repeated = keys.findRepeated(reader, this.metadataAt);
    if (repeated !== -1) this.failRepeated(repeated);
  }

  *#readWeightMap(): Work<void> {
    const reader = this.reader;
    if (reader.peek() !== OPEN_BRACE) reader.fail('an object as "weight_map"');
    this.size = 0;
    if (reader.enter(CLOSE_BRACE)) while (this.#readSlice()) yield;
  }

  /** Reads some entries; returns whether there are more. */
  #readSlice(): boolean {
    for (let read = 0; read < ITEMS_PER_YIELD; read++) if (!this.#readEntry()) return false;
    return true;
  }

  /**
   * Reads a name and its shard; returns whether there is another entry, at whose name the reader then
   * stands. Neighbours mostly have one shard: then the bytes between two names are those that were read
   * between the two before.
   */
  #readEntry(): boolean {
    const { reader } = this;
    if (reader.peek() !== QUOTE) reader.fail('a key in double quotes');
    const nameAt = reader.readString();
    const entry = this.size++;
    this.nameAt[entry] = nameAt;
    this.shardOf[entry] = this.#shard;
    this.isSorted &&= entry === 0 || this.#isAfter(nameAt, this.nameAt[entry - 1] as number);
    if (reader.skipRepeated(this.#betweenAt, this.#betweenEnd)) return true;
    const betweenAt = reader.at;
    reader.expect(COLON, '":" after the key');
    reader.tensorAt = nameAt;
    if (reader.peek() !== QUOTE) reader.fail('a string, the name of a shard');
    this.#shard = this.#readShard(nameAt);
    reader.tensorAt = -1;
    this.shardOf[entry] = this.#shard;
    if (!reader.hasNext(CLOSE_BRACE)) return false;
    reader.peek();
    this.#betweenAt = betweenAt;
    this.#betweenEnd = reader.at;
    return true;
  }

  #isAfter(nameAt: number, otherAt: number): boolean {
    return compareJsonStrings(this.reader, nameAt, this.reader, otherAt) > 0;
  }

  #readShard(nameAt: number): number {
    const reader = this.reader;
    const at = reader.readString();
    const spelling = decodeString(reader.bytes, at);
    const known = this.#numbers.get(spelling);
    if (known !== undefined) return known;
    const tensor = decodeString(reader.bytes, nameAt);
    const name = checkShardName(spelling, { path: this.#path, tensor }, this.#extension);
    const number = this.#numbers.get(name) ?? this.shards.push(name) - 1;
    this.#numbers.set(name, number).set(spelling, number);
    if (this.#numbers.size > MAX_SHARD_COUNT) {
      reader.failAt(at, `at most ${MAX_SHARD_COUNT} shards`, 'another one');
    }
    return number;
  }

  /** Refuses the key at `at`, which repeats an earlier one. */
  failRepeated(at: number): never {
    const key = quoteName(decodeString(this.reader.bytes, at));
    this.reader.failAt(at, 'every key once', `${key} repeated`);
  }
}
