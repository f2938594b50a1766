/** A checkpoint to be written, before anything of it is: its files, their headers, the index. */

import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from './checkpoint-index.js';
import type { CheckpointMetadata } from './checkpoint-metadata.js';
import { argumentRangeError, FormatError, InvalidTensorError } from './errors.js';
import { type Layout, layOut } from './header-writer.js';
import { type IndexValue, indexText } from './index-writer.js';
import { DEFAULT_MAX_SHARD_SIZE, type StateDictSplit, splitStateDictIntoShards } from './shard.js';
import { SHARD_EXTENSION } from './shard-name.js';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from './shard-names.js';
import type { FilePayload, MemoryPayload, StreamPayload, TensorEntry } from './tensor-input.js';

/** Any tensor that can be written. */
export type AnyEntry = TensorEntry<MemoryPayload | FilePayload | StreamPayload>;

/** How a checkpoint is laid out. */
export interface CheckpointLayoutOptions {
  /**
   * Bytes of tensors per file, as a number (`Infinity`: one file) or a text as `'5GB'`, `'200 MB'`,
   * `'1.5GiB'`; `'5GB'` by default. A tensor that is larger gets a file of its own.
   */
  readonly maxShardSize?: number | string | undefined;
  /**
   * A plain file name with `{suffix}` exactly once, for the number, that ends in `.safetensors`;
   * `'model{suffix}.safetensors'` by default.
   */
  readonly filenamePattern?: string | undefined;
  /**
   * Stands before the number: `fp16` makes `model.fp16-00001-of-00002.safetensors`, with the index
   * `model.safetensors.index.fp16.json`, as transformers has it.
   */
  readonly variant?: string | undefined;
}

/** Metadata of the files, null for none, and of the index. */
export interface PlannedMetadata extends Pick<CheckpointMetadata, 'index'> {
  readonly file: ReadonlyMap<string, string> | null;
}

/** A file to be written. */
export interface PlannedFile {
  readonly name: string;
  readonly layout: Layout<AnyEntry>;
}

/** A checkpoint to be written. */
export interface CheckpointPlan {
  readonly pattern: FilenamePattern;
  readonly files: readonly PlannedFile[];
  /** Bytes of the tensors. */
  readonly totalSize: number;
  /** Text of the index; null for a single file. */
  readonly indexText: string | null;
  /** Text of an index, also for a single file, in which files have other names. */
  interimIndexText(nameOf: (filename: string) => string): string;
}

/** The pattern that the options mean; throws as `FilenamePattern` does. */
function patternOf({ filenamePattern, variant }: CheckpointLayoutOptions): FilenamePattern {
  const pattern = new FilenamePattern(filenamePattern ?? DEFAULT_FILENAME_PATTERN, variant);
  if (pattern.text.endsWith(SHARD_EXTENSION)) return pattern;
  const expected = `a file name that ends in ${SHARD_EXTENSION}, as shards of an index must`;
  throw argumentRangeError('filenamePattern', expected, filenamePattern);
}

/**
 * Splits the tensors and lays out every file. Without tensors there is one file.
 *
 * @throws InvalidTensorError as `layOut`, and for a name that comes twice
 * @throws FormatError `SAFETENSORS_INDEX_TOO_LARGE` for an index that no reader accepts
 * @throws TypeError, RangeError for unusable options
 */
export function planCheckpoint(
  entries: readonly AnyEntry[],
  options: CheckpointLayoutOptions,
  metadataOf: (split: StateDictSplit) => PlannedMetadata,
): CheckpointPlan {
  const pattern = patternOf(options);
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  if (byName.size < entries.length) failTwice(entries);
  const split = splitStateDictIntoShards(
    Array.from(entries, (entry) => [entry.name, entry] as const),
    {
      maxShardSize: options.maxShardSize ?? DEFAULT_MAX_SHARD_SIZE,
      filenamePattern: pattern.text,
    },
  );
  const { filenameToTensors, tensorToFilename, isSharded } = split;
  if (entries.length === 0) filenameToTensors.set(pattern.filename(1, 1), []);
  const { file: metadata, index } = metadataOf(split);
  const files = Array.from(filenameToTensors, ([name, tensors]) => {
    const specs = tensors.map((tensor) => byName.get(tensor) as AnyEntry);
    return { name, layout: layOut(specs, { metadata }) };
  });
  const totalSize = split.metadata.total_size;
  const indexMetadata: ReadonlyMap<string, IndexValue> =
    index ?? new Map<string, IndexValue>([['total_size', totalSize], ...(metadata ?? [])]);
  const text = isSharded ? indexText(indexMetadata, tensorToFilename) : null;
  if (text !== null) requireIndexLength(text.length);
  const interimIndexText: CheckpointPlan['interimIndexText'] = (nameOf) => {
    const weightMap = new Map<string, string>();
    for (const [tensor, file] of tensorToFilename) weightMap.set(tensor, nameOf(file));
    return indexText(indexMetadata, weightMap);
  };
  return { pattern, files, totalSize, indexText: text, interimIndexText };
}

/** Of the index's text, which is ASCII. */
function requireIndexLength(byteLength: number): void {
  if (byteLength <= DEFAULT_MAX_INDEX_BYTE_LENGTH) return;
  throw new FormatError(
    'SAFETENSORS_INDEX_TOO_LARGE',
    `expected an index of at most ${DEFAULT_MAX_INDEX_BYTE_LENGTH} bytes, found ${byteLength}: write ` +
      'one file, or shorter names, or less metadata',
  );
}

function failTwice(entries: readonly AnyEntry[]): never {
  const names = new Set<string>();
  for (const { name: tensor } of entries) {
    if (names.has(tensor)) {
      const message = 'expected every name once, found it twice';
      throw new InvalidTensorError('SAFETENSORS_INVALID_TENSOR_VIEW', message, { tensor });
    }
    names.add(tensor);
  }
  throw new Error('no name comes twice');
}
