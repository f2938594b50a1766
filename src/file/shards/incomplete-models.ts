/**
 * Recognises files that are not a model: parts of a distributed checkpoint (torch.distributed.checkpoint), whose
 * tensors are pieces, and deltas, whose tensors are changes of another checkpoint. Headers, indexes and names decide.
 */

import { FormatError, type FormatErrorCode, quoteName, quoteNames } from '../../errors/errors.js';
import type { FileContents } from '../../header/file-contents.js';
import { isConvertibleName } from './file-choice.js';
import { SHARD_EXTENSION } from './shard-paths.js';

/** The parts of a header that decide. */
type ModelContents = Pick<
  FileContents,
  'size' | 'metadata' | 'find' | 'name' | 'dtype' | 'shape' | 'begin' | 'end'
>;

/** A file or an index that is not a model. */
export interface IncompleteModel {
  readonly code: FormatErrorCode;
  /** Such as "part of a distributed checkpoint (rank 1)". */
  readonly kind: string;
  /** The sign that decided; undefined where `kind` contains it. */
  readonly sign?: string | undefined;
  readonly advice: string;
}

/** Where a file was found. */
interface FileOrigin {
  /** Its name, without directories; undefined without a name. */
  readonly name?: string | undefined;
  /** Whether an index lists it. */
  readonly isIndexed?: boolean | undefined;
  /** Whether its tensors are compressed: `isZstd` for the bytes at all `zstdPositions`, of which there are some. */
  readonly isCompressed?: boolean | undefined;
}

/** The metadata key with the offsets of all tensors of a file: the position of each part in its whole tensor. */
export const SHARDING_INFO = 'DCP_SHARDING_INFO';

/** The name of a part: its rank, counted from 1, and the number of the file among those of the rank. */
const PART_NAME = /^shard-(\d{5,})-model-(\d{5,})-of-(\d{5,})\.safetensors$/;

/** The name of a part, in a file with the key above. */
const PART_PREFIX = /^shard-(\d*)/;

const OPEN_FOLDER = 'open() in Node reads a folder with the files of all ranks';

/**
 * Names of the files of one rank in formats without metadata: vLLM's and SGLang's sharded state, DeepSeek's tensor
 * parallelism (with the number of ranks), Neuron, Meta's Llama, Megatron, DeepSpeed, and tensor parallelism in general.
 * Ranks count from 0.
 */
const RANK_NAMES: readonly RegExp[] = [
  /^model-rank-(\d+)-part-\d+\.safetensors$/,
  /^model(\d+)-mp(\d+)\.safetensors$/,
  /^tp(\d+)_sharded_checkpoint\.safetensors$/,
  /^consolidated\.(\d\d)\.(?:pth|safetensors)$/,
  /^mp_rank_(\d{2,3})(?:_\d{3})*$/,
  /^mp_rank_(\d{2,3})_model_states\.pt$/,
  /^model-tp-(\d+)-of-(\d+)\.safetensors$/,
];

/** The name of a rank's file, or of a LoRA of this rank: only a complete series from 0 shows which. */
const BARE_RANK = /^rank(\d{1,4})\.safetensors$/;

const SAVE_COMPLETE = 'save the complete model with the program that wrote the parts';

const APPLY = 'apply it to its base checkpoint first';

/** Adler-32, XXH3-128 or BLAKE3 in hexadecimal. */
const CHECKSUM = /^(?:[\da-f]{8}|[\da-f]{32}|[\da-f]{64})$/;

/** The first bytes of a zstd frame. */
const ZSTD_MAGIC: readonly number[] = [0x28, 0xb5, 0x2f, 0xfd];

/** Length of the bytes for `isZstd`. */
export const ZSTD_MAGIC_BYTE_LENGTH: number = ZSTD_MAGIC.length;

/** Most siblings whose headers are read: a folder may hold hundreds of adapters. */
const MAX_SIBLINGS = 16;

/** Returns why the file is not a model; null for a model, as far as its header and its name show. */
export function incompleteModel(
  contents: ModelContents,
  origin: FileOrigin = {},
): IncompleteModel | null {
  return deltaFile(contents, origin) ?? partFile(contents, origin);
}

/** Returns the error for a file or an index that is not a model. */
export function incompleteModelError(
  { code, kind, sign, advice }: IncompleteModel,
  subject: 'file' | 'index' | 'folder',
  path: string | undefined,
): FormatError {
  const reason = sign === undefined ? '' : ` (${sign})`;
  const isDelta = code === 'SAFETENSORS_DELTA';
  const verb = subject === 'folder' ? 'contains' : isDelta ? 'is a' : 'is';
  const message = `the ${subject} ${verb} ${kind}, not a model${reason}; ${advice}`;
  const foundFormat = isDelta ? 'delta' : 'distributed-part';
  const error = new FormatError(code, message, { path, foundFormat });
  KINDS.set(error, kind);
  return error;
}

/** The kinds in errors, for `inspect`. */
const KINDS = new WeakMap<object, string>();

/** Returns the kind in an error of `incompleteModelError`; undefined for other errors. */
export function incompleteKind(error: unknown): string | undefined {
  return KINDS.get(Object(error));
}

/** `method` is from the file, if it specifies one. */
function delta(method: string | undefined, description: string): IncompleteModel {
  // A name from a file may contain anything.
  const isWord = method === undefined || /^[\w.-]{1,40}$/.test(method);
  const shown = isWord ? (method ?? description) : quoteName(method);
  return { code: 'SAFETENSORS_DELTA', kind: `delta (${shown})`, advice: APPLY };
}

/** `number` is that of the file's name, which counts ranks from 1. */
function part(number: string | undefined, sign: string): IncompleteModel {
  const rank = Number(number) - 1;
  return {
    code: 'SAFETENSORS_DISTRIBUTED_PART',
    kind: `part of a distributed checkpoint${rank >= 0 ? ` (rank ${rank})` : ''}`,
    sign,
    advice: OPEN_FOLDER,
  };
}

/** The rank in the name of a file, or of a directory of Megatron; `pattern` is that of its siblings. */
interface RankName {
  readonly pattern: RegExp;
  readonly rank: number;
  /** Whether the name itself shows that there are other ranks. */
  readonly isPart: boolean;
}

function rankName(name: string): RankName | undefined {
  // Each of the names has a digit: for most files none of their patterns has to be compiled.
  if (!/\d/.test(name)) return undefined;
  for (const pattern of RANK_NAMES) {
    const [whole, rank, count] = pattern.exec(name) ?? [];
    if (whole === undefined) continue;
    return { pattern, rank: Number(rank), isPart: Number(rank) > 0 || Number(count) > 1 };
  }
  return undefined;
}

/** Whether a file or directory has the name of a rank's file, the only one or one of several. */
export function isRankName(name: string): boolean {
  return rankName(name) !== undefined;
}

/**
 * Returns why a file or directory is a part, by its name and those of its siblings: only the names of some formats
 * contain the rank. Null for others, and for the only rank.
 */
export function partOfRank(name: string, siblings: readonly string[]): IncompleteModel | null {
  const own = rankName(name);
  if (own === undefined) return null;
  const isOther = (sibling: string): boolean => {
    const other = rankName(sibling);
    return other?.pattern === own.pattern && other.rank !== own.rank;
  };
  if (!own.isPart && !siblings.some(isOther)) return null;
  return rankPart(name, own.rank);
}

function rankPart(name: string, rank: number): IncompleteModel {
  const found = part(String(rank + 1), `${quoteName(name)} is the name of a rank's file`);
  return { ...found, advice: SAVE_COMPLETE };
}

/** Returns the delta that an index declares by `delta_encoding`; null for other indexes. */
export function deltaIndex({
  metadata,
  jsonKeys,
}: {
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly jsonKeys: ReadonlySet<string>;
}): IncompleteModel | null {
  const encoding = metadata?.get('delta_encoding');
  const isAbsent =
    encoding === undefined || (encoding === 'null' && jsonKeys.has('delta_encoding'));
  return isAbsent ? null : delta(encoding, '');
}

function deltaFile(contents: ModelContents, { isCompressed }: FileOrigin): IncompleteModel | null {
  const { metadata } = contents;
  const encoding = metadata?.get('delta_encoding');
  // The metadata of a file has no null, only its text.
  if (encoding !== undefined && encoding !== 'null') return delta(encoding, '');
  if (metadata?.get('format') === 'sparse_weight_patch') {
    // The complete checkpoints between the deltas have the same key.
    const isComplete = metadata.get('sparse') === 'False';
    return isComplete ? null : delta(metadata.get('encoding'), 'indices and values');
  }
  const isOldForm = contents.find('__positions__') !== -1 && contents.find('__values__') !== -1;
  if (isOldForm) return delta(metadata?.get('encoding'), 'positions and values');
  const isVersionFile = isCompressed === true && zstdPositions(contents).length > 0;
  return isVersionFile ? delta(undefined, 'compressed changes') : null;
}

/**
 * Where the tensor data of a delta's file has zstd frames, as offsets from its beginning: those of the first and the
 * last tensor. Empty for other files: in a delta every tensor is a U8 vector, and the metadata contains a checksum for
 * each and nothing else. The header alone does not decide, since a container of blobs with their hashes has the same;
 * and `delta_encoding` is only in the index, which a file opened by itself may lack.
 */
export function zstdPositions(contents: ModelContents): number[] {
  const { metadata, size } = contents;
  if (metadata === null || size === 0 || metadata.size !== size) return [];
  for (let entry = 0; entry < size; entry++) {
    if (contents.dtype(entry) !== 'U8' || contents.shape(entry).length !== 1) return [];
    if (contents.end(entry) - contents.begin(entry) < ZSTD_MAGIC_BYTE_LENGTH) return [];
    if (!CHECKSUM.test(metadata.get(contents.name(entry)) ?? '')) return [];
  }
  return [...new Set([0, size - 1])].map((entry) => contents.begin(entry));
}

/** Whether a zstd frame begins with these bytes. */
export function isZstd(bytes: Uint8Array): boolean {
  return ZSTD_MAGIC.every((byte, i) => bytes[i] === byte);
}

/** The offsets of the tensors of a part in the whole tensors; null for values that are not understood. */
export function savedOffsets(json: string): Map<string, readonly number[]> | null {
  try {
    const offsets = new Map<string, readonly number[]>();
    const parsed: unknown = JSON.parse(json);
    if (typeof parsed !== 'object' || Array.isArray(parsed)) return null;
    for (const [name, value] of Object.entries(parsed as object)) {
      const { saved_offsets: saved } = Object(value);
      if (!Array.isArray(saved) || !saved.every((one) => Number.isSafeInteger(one) && one >= 0)) {
        return null;
      }
      offsets.set(name, saved);
    }
    return offsets;
  } catch {
    return null;
  }
}

function partFile(
  { metadata }: ModelContents,
  { name = '', isIndexed }: FileOrigin,
): IncompleteModel | null {
  const info = metadata?.get(SHARDING_INFO);
  const [, number] = (info === undefined ? PART_NAME : PART_PREFIX).exec(name) ?? [];
  if (info !== undefined) {
    const offsets = savedOffsets(info);
    if (offsets === null) return part(number, `${SHARDING_INFO} is malformed`);
    for (const [tensor, saved] of offsets) {
      if (isMoved(saved))
        return part(number, `${quoteName(tensor)} begins at [${saved.join(', ')}]`);
    }
  }
  if (isIndexed === true) return null;
  if (number === undefined) return partOfRank(name, []);
  return part(number, `${quoteName(name)} is the name of a rank's file`);
}

function isMoved(offsets: readonly number[] | undefined): boolean {
  return offsets?.some((offset) => offset !== 0) === true;
}

/** Whether nothing but its name shows that a file is a part: an index that lists it proves otherwise. */
export function isPartByName(contents: ModelContents, origin: FileOrigin): boolean {
  const isOtherwise = incompleteModel(contents, { ...origin, isIndexed: true }) !== null;
  return !isOtherwise && incompleteModel(contents, origin) !== null;
}

/** Whether the names of siblings, or else their headers, can show that this file is a part. */
export function needsSiblings(contents: ModelContents, name: string): boolean {
  return hasShardingInfo(contents) || rankName(name) !== undefined || BARE_RANK.test(name);
}

/** Whether only headers of siblings can show that this file is a part: those of the first rank begin at 0, too. */
export function needsSiblingHeaders(
  contents: ModelContents,
  name: string,
  siblings: readonly string[],
): boolean {
  return hasShardingInfo(contents) || isBareSet(name, siblings);
}

function hasShardingInfo({ metadata }: ModelContents): boolean {
  return metadata?.has(SHARDING_INFO) === true;
}

/** The names of the safetensors files next to a file. */
export function siblingsAmong(names: readonly string[], name: string): string[] {
  return names.filter((other) => other !== name && other.endsWith(SHARD_EXTENSION));
}

/** The siblings whose headers are compared: in any folder the same, and files with names of parts first. */
export function comparedSiblings(siblings: readonly string[]): string[] {
  const sorted = siblings.toSorted();
  const isPartName = (name: string): boolean => PART_PREFIX.test(name) || BARE_RANK.test(name);
  const parts = sorted.filter(isPartName);
  const others = sorted.filter((name) => !isPartName(name));
  return [...parts, ...others].slice(0, MAX_SIBLINGS);
}

/**
 * Returns why a file is a part: a sibling contains another part of one of its tensors. Null for siblings with other
 * tensors, and for copies of the file. Unrelated models may use the same names for tensors of other shapes: then an
 * offset or a name has to show that one of the two is a part.
 */
export function partWithSibling(
  contents: ModelContents,
  name: string,
  sibling: ModelContents,
  siblingName: string,
  siblings: readonly string[],
): IncompleteModel | null {
  const info = sibling.metadata?.get(SHARDING_INFO);
  if (info === undefined) {
    const isOfSet = BARE_RANK.test(siblingName) && isBareSet(name, siblings);
    if (!isOfSet || !haveSameNames(contents, sibling)) return null;
    return rankPart(name, Number(BARE_RANK.exec(name)?.[1]));
  }
  const offsets = savedOffsets(info);
  const hasPartName = PART_PREFIX.test(name) || PART_PREFIX.test(siblingName);
  for (let entry = 0; entry < contents.size; entry++) {
    const tensor = contents.name(entry);
    const other = sibling.find(tensor);
    if (other === -1) continue;
    const isOfSameShape = String(sibling.shape(other)) === String(contents.shape(entry));
    const isOtherPart = isMoved(offsets?.get(tensor)) || (hasPartName && !isOfSameShape);
    if (!isOtherPart) continue;
    const sign = `${quoteName(siblingName)} contains another part of ${quoteName(tensor)}`;
    return part(undefined, sign);
  }
  return null;
}

/** Whether a file belongs to a series `rank0`, `rank1` and so on, without gaps up to its own rank. */
function isBareSet(name: string, siblings: readonly string[]): boolean {
  const rankOf = (one: string): number => Number(BARE_RANK.exec(one)?.[1]);
  const present = new Set([name, ...siblings].map(rankOf));
  const ranks = Math.max(rankOf(name) + 1, 2);
  if (Number.isNaN(ranks)) return false;
  return Array.from({ length: ranks }, (_, rank) => rank).every((rank) => present.has(rank));
}

function haveSameNames(one: ModelContents, other: ModelContents): boolean {
  if (one.size === 0 || one.size !== other.size) return false;
  for (let entry = 0; entry < one.size; entry++) {
    if (other.find(one.name(entry)) === -1) return false;
  }
  return true;
}

/** Returns the kind of a file that has the name of a part. */
export function partKind(name: string): string {
  const [, number] = PART_NAME.exec(name) ?? [];
  const rank = rankName(name)?.rank;
  return part(rank === undefined ? number : String(rank + 1), '').kind;
}

/** What the name of a part of a distributed checkpoint in safetensors declares. */
export interface PartFile {
  /** The rank, from 0 on. */
  readonly rank: number;
  /** The number of the file among those of a rank, from 1 on, and how many a rank has at most. */
  readonly number: number;
  readonly count: number;
}

/** Returns what the name of a part declares; undefined for other names. */
export function partFileOf(name: string): PartFile | undefined {
  const [rank = 0, number = 0, count = 0] = (PART_NAME.exec(name) ?? []).slice(1).map(Number);
  return rank > 0 && number > 0 && number <= count ? { rank: rank - 1, number, count } : undefined;
}

/** The list of a checkpoint of `.distcp` files. */
export const METADATA_FILE = '.metadata';

/** Names the checkpoint of files in safetensors, as it names shards without an index. */
export const IMPLIED_INDEX = 'model.safetensors.index.json';

/** Whether a folder with these names has a distributed checkpoint; a safetensors model in it comes first. */
export function isDistributed(names: readonly string[]): boolean {
  if (names.includes(METADATA_FILE)) return names.some((name) => name.endsWith('.distcp'));
  const weights = names.filter((name) => name.endsWith('.safetensors'));
  return weights.length > 0 && weights.every((name) => partFileOf(name) !== undefined);
}

/** The names of parts of a distributed checkpoint. */
export function partNames(names: readonly string[]): string[] {
  return names.filter((name) => PART_NAME.test(name) || partOfRank(name, names) !== null);
}

/** Returns the error for a folder whose only weights are parts of a distributed checkpoint; undefined for others. */
export function partsError(names: readonly string[], path?: string): FormatError | undefined {
  const ofSafetensors = names.filter((name) => name.endsWith(SHARD_EXTENSION));
  const weights = ofSafetensors.length > 0 ? ofSafetensors : names.filter(isConvertibleName);
  const parts = partNames(weights);
  if (parts.length === 0 || parts.length < weights.length) return undefined;
  const found: IncompleteModel = {
    code: 'SAFETENSORS_DISTRIBUTED_PART',
    kind: 'parts of a distributed checkpoint',
    sign: quoteNames(parts),
    advice: parts.some((name) => PART_NAME.test(name)) ? OPEN_FOLDER : SAVE_COMPLETE,
  };
  return incompleteModelError(found, 'folder', path);
}
