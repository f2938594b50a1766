/**
 * Lays out a file to be written: its header and the place of every tensor. Gives the reference's bytes for tensors
 * and metadata in any order.
 */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireString,
} from '../errors/arguments.js';
import {
  type ErrorContext,
  InvalidTensorError,
  quoteName,
  rejectTensor,
} from '../errors/errors.js';
import { type NamedValues, pairsOf } from '../errors/named-values.js';
import { forEachYielding } from '../work/items.js';
import { runSync, type Work } from '../work/work.js';
import { DTYPE_NAMES, type Dtype } from './dtype.js';
import { DEFAULT_MAX_HEADER_BYTE_LENGTH, PREFIX_BYTE_LENGTH } from './header.js';
import { METADATA_NAME } from './header-parser.js';
import { compareCodePoints, sortByNameYielding } from './json/code-point-order.js';
import { EncodedText } from './json/encoded-text.js';
import {
  DIGESTS_KEY,
  type DigestsPlace,
  digestsPlace,
  reservedDigests,
  withoutDigests,
} from './tensor-digests.js';
import type { NamedTensorSpec } from './tensor-spec.js';

/** The data begins at a multiple of this many bytes, which aligns every tensor. */
export const MIN_ALIGNMENT = 8;

/** The padding is part of the header, whose length is limited: the largest power of two that fits. */
const MAX_ALIGNMENT = 2 ** 26;

/** With more data, positions behind the longest header would not be exact numbers. */
const MAX_DATA_BYTE_LENGTH =
  Number.MAX_SAFE_INTEGER - PREFIX_BYTE_LENGTH - DEFAULT_MAX_HEADER_BYTE_LENGTH;

const LONE_SURROGATE = /[\ud800-\udfff]/u;

/** Whether a text is Unicode. The method, which older browsers lack, is faster than the expression. */
function isUnicode(text: string & { isWellFormed?: () => boolean }): boolean {
  return text.isWellFormed?.() ?? !LONE_SURROGATE.test(text);
}

export const SPACE = 0x20;

/** Typical length of an entry, whose name has 50 to 60 characters. */
export const TYPICAL_ENTRY_BYTE_LENGTH = 160;

const RANKS: ReadonlyMap<Dtype, number> = new Map(DTYPE_NAMES.map((name, rank) => [name, rank]));

/** Metadata to be written: strings by key, as a Map, pairs or a plain object. */
export type MetadataInput = NamedValues<string>;

/** Contents of a header next to the tensors. */
export interface HeaderOptions {
  /**
   * Strings by key, written sorted by key, without digests of other bytes (`safetensors-mmap.sha256`). The default is
   * the metadata of a checkpoint that is written, without hashes of its bytes; else none. Null writes none.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /** The tensor data begins at a multiple of this many bytes: a power of two, at least 8. */
  readonly alignment?: number | undefined;
  /** Least number of spaces at the end of the header, in bytes: room for later changes of the metadata. */
  readonly reserve?: number | undefined;
}

/** Names of the options. */
export const HEADER_OPTIONS: OptionNames<HeaderOptions> = {
  metadata: true,
  alignment: true,
  reserve: true,
};

/** Where a tensor goes, in bytes from the start of the data. */
export interface Placed<Spec> {
  readonly spec: Spec;
  readonly begin: number;
  readonly end: number;
}

/** A file without its data. */
export interface Layout<Spec> {
  /** The first bytes of the file: the header's length, its JSON and the padding. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** The tensors in the order of their bytes, without gaps. */
  readonly placed: readonly Placed<Spec>[];
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
  /** Where the digests of the tensors go; undefined for a file without digests. */
  readonly digests?: DigestsPlace | undefined;
}

/**
 * Lays out a file; `hasDigests` leaves room in the metadata for the digests of its tensors.
 *
 * @throws InvalidTensorError for a tensor or metadata that cannot be written, and
 *   `SAFETENSORS_HEADER_TOO_LARGE` for more than 100 000 000 bytes of header
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for names and metadata that are not strings
 * @throws TypeError, RangeError `ERR_OUT_OF_RANGE` for bad values of options; callers refuse unknown options
 */
export function layOut<Spec extends NamedTensorSpec>(
  specs: Iterable<Spec>,
  options: HeaderOptions = {},
  hasDigests = false,
): Layout<Spec> {
  return runSync(layOutYielding(specs, options, hasDigests));
}

/** As {@link layOut}; the specs must not change meanwhile. */
export function* layOutYielding<Spec extends NamedTensorSpec>(
  specs: Iterable<Spec>,
  options: HeaderOptions,
  hasDigests: boolean,
): Work<Layout<Spec>> {
  const alignment = alignmentOf(options);
  const reserve = reserveOf(options);
  const placed = yield* place(specs);
  const room = hasDigests ? reservedDigests(placed.length) : undefined;
  const text = yield* encodeHeader(placed, options.metadata, room);
  const header = frameHeader(text, alignment, reserve);
  const byteLength = header.byteLength + (placed.at(-1)?.end ?? 0);
  if (!hasDigests) return { header, placed, byteLength };
  const tensors = placed.map(({ spec }) => spec);
  return { header, placed, byteLength, digests: digestsPlace(header, tensors) };
}

/** The first bytes of a file: the length of the header, its JSON and the padding. */
export function frameHeader(
  json: EncodedText,
  alignment: number = MIN_ALIGNMENT,
  reserve = 0,
): Uint8Array<ArrayBuffer> {
  const jsonEnd = PREFIX_BYTE_LENGTH + json.byteLength;
  const byteLength = Math.ceil((jsonEnd + reserve) / alignment) * alignment;
  requireHeaderLength(byteLength - PREFIX_BYTE_LENGTH);
  const header = new Uint8Array(byteLength);
  new DataView(header.buffer).setUint32(0, byteLength - PREFIX_BYTE_LENGTH, true);
  json.copyTo(header.subarray(PREFIX_BYTE_LENGTH));
  return header.fill(SPACE, jsonEnd);
}

/**
 * Metadata as the JSON object of a header, keys sorted.
 *
 * @throws InvalidTensorError for a key given twice or a lone surrogate, naming the key, and
 *   `SAFETENSORS_HEADER_TOO_LARGE`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for values that are not strings
 */
export function encodeMetadata(metadata: MetadataInput): string {
  const values = new Map<string, string>();
  let leastByteLength = 0;
  for (const [key, value] of pairsOf(metadata, 'metadata')) {
    if (typeof value !== 'string') {
      throw argumentTypeError(`metadata ${quoteName(key)}`, 'a string', value);
    }
    if (!isUnicode(key) || !isUnicode(value)) {
      const found = 'found a lone surrogate in the key or the value';
      rejectTensor(`metadata ${quoteName(key)}: expected Unicode text, ${found}`);
    }
    if (values.has(key)) rejectTensor(`metadata ${quoteName(key)}: duplicate key`);
    values.set(key, value);
    // Refuse too much text before keeping and sorting it.
    leastByteLength += key.length + value.length;
    requireHeaderLength(leastByteLength);
  }
  let text = '';
  for (const key of [...values.keys()].sort(compareCodePoints)) {
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${JSON.stringify(values.get(key))}`;
    requireHeaderLength(text.length);
  }
  return `{${text}}`;
}

function alignmentOf({ alignment = MIN_ALIGNMENT }: HeaderOptions): number {
  if (typeof alignment !== 'number') throw argumentTypeError('alignment', 'a number', alignment);
  const isInRange = Number.isInteger(alignment) && alignment >= 1 && alignment <= MAX_ALIGNMENT;
  if (!isInRange || (alignment & (alignment - 1)) !== 0) {
    throw argumentRangeError('alignment', `a power of two up to ${MAX_ALIGNMENT}`, alignment);
  }
  return Math.max(alignment, MIN_ALIGNMENT);
}

function reserveOf({ reserve = 0 }: HeaderOptions): number {
  if (typeof reserve !== 'number') throw argumentTypeError('reserve', 'a number', reserve);
  if (!Number.isSafeInteger(reserve) || reserve < 0) {
    throw argumentRangeError('reserve', 'a number of bytes, 0 or more', reserve);
  }
  return reserve;
}

/** Sorts by dtype rank, descending, then by name: every tensor is then aligned to its element. */
function* place<Spec extends NamedTensorSpec>(specs: Iterable<Spec>): Work<Placed<Spec>[]> {
  const byRank: Spec[][] = DTYPE_NAMES.map(() => []);
  const names = new Set<string>();
  let leastByteLength = 0;
  yield* forEachYielding(specs, (spec) => {
    requireName(spec.name);
    // A character takes at least one byte, a dimension with its comma two. Refuse too long a header before sorting
    // and joining its parts.
    leastByteLength += spec.name.length + 2 * spec.shape.length;
    requireHeaderLength(leastByteLength);
    if (names.size === names.add(spec.name).size) {
      rejectTensor('duplicate tensor name', spec.name);
    }
    byRank[RANKS.get(spec.dtype) as number]?.push(spec);
  });
  const placed: Placed<Spec>[] = [];
  let begin = 0;
  for (const group of byRank.reverse()) {
    yield* sortByNameYielding(group, ({ name }) => name);
    yield* forEachYielding(group, (spec) => {
      const end = begin + spec.byteLength;
      requireDataByteLength(end, spec);
      placed.push({ spec, begin, end });
      begin = end;
    });
  }
  return placed;
}

/** Throws InvalidTensorError for more data than positions can tell; the last tensor may be left out. */
export function requireDataByteLength(byteLength: number, last?: NamedTensorSpec): void {
  if (byteLength <= MAX_DATA_BYTE_LENGTH) return;
  const at = last === undefined ? '' : ` at this tensor of ${last.byteLength} bytes`;
  const message = `expected at most ${MAX_DATA_BYTE_LENGTH} bytes of tensor data, found more${at}`;
  rejectTensor(message, last?.name);
}

function requireName(name: string): void {
  requireString('the name of a tensor', name);
  const problem = nameProblem(name);
  if (problem !== undefined) rejectTensor(problem, name);
}

/** Why no tensor can have a name; undefined for one that it can have. */
export function nameProblem(name: string): string | undefined {
  if (name === METADATA_NAME) return 'expected another name: this one stands for the metadata';
  if (isUnicode(name)) return undefined;
  return 'expected Unicode text as its name, found a lone surrogate';
}

function* encodeHeader(
  placed: readonly Placed<NamedTensorSpec>[],
  metadata: MetadataInput | null | undefined,
  digests: string | undefined,
): Work<EncodedText> {
  const text = new EncodedText(requireHeaderLength, placed.length * TYPICAL_ENTRY_BYTE_LENGTH);
  let separator = appendMetadata(text, metadata, digests);
  yield* forEachYielding(placed, ({ spec, begin, end }) => {
    const { name, dtype, shape } = spec;
    text.append(
      `${separator}${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join()}],` +
        `"data_offsets":[${begin},${end}]}`,
    );
    separator = ',';
  });
  text.append(separator === '{' ? '{}' : '}');
  return text;
}

/**
 * Begins a header with its metadata, if any; returns the separator before the next entry. Sums in the metadata are of
 * other tensors, and left out; `digests` are those of the new file.
 */
export function appendMetadata(
  text: EncodedText,
  metadata: MetadataInput | null | undefined,
  digests?: string,
): string {
  const isGiven = metadata !== null && metadata !== undefined;
  if (!isGiven && digests === undefined) return '{';
  function* pairs(): Generator<readonly [string, string], void, void> {
    if (isGiven) yield* withoutDigests(pairsOf(metadata, 'metadata'));
    if (digests !== undefined) yield [DIGESTS_KEY, digests];
  }
  text.append(`{${JSON.stringify(METADATA_NAME)}:${encodeMetadata(pairs())}`);
  return ',';
}

/**
 * Reads metadata at once, so that the caller may change it before it is encoded: what a header can hold, up to the
 * first fault, which encoding finds. An error of reading is thrown then, too.
 */
export function takeMetadata(metadata: MetadataInput): Iterable<readonly [string, string]> {
  const pairs: (readonly [string, string])[] = [];
  try {
    let byteLength = 0;
    for (const [key, value] of withoutDigests(pairsOf(metadata, 'metadata'))) {
      pairs.push([key, value]);
      if (typeof value !== 'string') break;
      byteLength += key.length + value.length;
      if (byteLength > DEFAULT_MAX_HEADER_BYTE_LENGTH) break;
    }
    return pairs;
  } catch (error) {
    return failingAfter(pairs, error);
  }
}

function* failingAfter<Item>(items: readonly Item[], error: unknown): Generator<Item, void, void> {
  yield* items;
  throw error;
}

/** Throws for a header that is too long; `byteLength` is its length, or a lower bound of it. */
export function requireHeaderLength(byteLength: number, context?: ErrorContext): void {
  if (byteLength <= DEFAULT_MAX_HEADER_BYTE_LENGTH) return;
  throw new InvalidTensorError(
    'SAFETENSORS_HEADER_TOO_LARGE',
    `expected a header of at most ${DEFAULT_MAX_HEADER_BYTE_LENGTH} bytes, found ${byteLength} or ` +
      'more: write fewer or shorter names, less metadata, or several files',
    context,
  );
}
