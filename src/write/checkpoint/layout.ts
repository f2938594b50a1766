/** Lays out a checkpoint before any write: its files, their headers, the index. */

import { argumentRangeError, type OptionNames, requireBoolean } from '../../errors/arguments.js';
import { FormatError, rejectTensor } from '../../errors/errors.js';
import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from '../../file/shards/checkpoint-index.js';
import {
  FormattedIndex,
  type IndexValue,
  type JsonString,
} from '../../file/shards/checkpoint-index-writer.js';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from '../../file/shards/file-names.js';
import type { CheckpointMetadata } from '../../file/shards/metadata.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { parseByteSize } from '../../file/shards/sizes.js';
import {
  DEFAULT_MAX_SHARD_SIZE,
  type SplitSummary,
  splitByteLengths,
} from '../../file/shards/split.js';
import { layOutYielding, type MetadataInput } from '../../header/header-writer.js';
import { forEachYielding } from '../../work/items.js';
import { runSync, type Work } from '../../work/work.js';
import type { Payload, WriteEntry } from '../input/tensor-input.js';
import type { FileWriteOptions } from '../save/save.js';
import type { WritableLayout } from '../save/tensor-writes.js';

/** A tensor to write, from any source. */
export type AnyEntry = WriteEntry<Payload>;

/** Options of the layout. */
export interface CheckpointLayoutOptions {
  /**
   * Bytes of tensors per file, as a number (`Infinity` for one file) or a text such as `'5GB'`,
   * `'200 MB'` or `'1.5GiB'`; `'5GB'` by default. A larger tensor gets a separate file.
   */
  readonly maxShardSize?: number | string | undefined;
  /**
   * A file name that ends in `.safetensors`, with `{suffix}` exactly once, in place of the number;
   * `'model{suffix}.safetensors'` by default.
   */
  readonly filenamePattern?: string | undefined;
  /**
   * Stands before the number: `fp16` gives `model.fp16-00001-of-00002.safetensors`, and the index
   * `model.safetensors.index.fp16.json`, as in transformers.
   */
  readonly variant?: string | undefined;
}

/** Names of the options. */
export const LAYOUT_OPTIONS: OptionNames<CheckpointLayoutOptions> = {
  maxShardSize: true,
  filenamePattern: true,
  variant: true,
};

/** Metadata of every file (null for no metadata) and of the index. */
interface LaidOutMetadata extends Pick<CheckpointMetadata, 'index'> {
  readonly file: ReadonlyMap<string, string> | null;
}

/** A file to be written, with the source of its bytes. */
export interface LaidOutFile<Layout = WritableLayout> {
  readonly name: string;
  readonly layout: Layout;
}

/** Tensors by number, from 0, which need not exist as objects. */
export interface TensorTable<Layout = WritableLayout> {
  /** Length of every tensor in bytes. */
  readonly byteLengths: Float64Array;
  /** Name of a tensor, or where it stands. */
  name(number: number): string | JsonString;
  /** Lays out a file of these tensors, with `hasDigests` for the digests of all of them. Throws as `layOut`. */
  layOut(
    numbers: readonly number[],
    metadata: MetadataInput | null,
    hasDigests: boolean,
  ): Work<Layout>;
  /** Whether a file of all tensors has them in the order of the source. */
  isInOrder?(): boolean;
  /** All tensors, or at least one from every source file. */
  readonly samples: Iterable<Pick<AnyEntry, 'payload'>>;
}

/**
 * Builds a table of tensors that exist as objects.
 *
 * @throws InvalidTensorError for a name given twice
 */
export function* tableOf(entries: readonly AnyEntry[]): Work<TensorTable> {
  yield* requireNamesOnce(entries);
  const byteLengths = new Float64Array(entries.length);
  yield* forEachYielding(entries.entries(), ([number, { byteLength }]) => {
    byteLengths[number] = byteLength;
  });
  const entry = (number: number): AnyEntry => entries[number] as AnyEntry;
  return {
    byteLengths,
    name: (number) => entry(number).name,
    layOut: (numbers, metadata, hasDigests) =>
      layOutYielding(numbers.map(entry), { metadata }, hasDigests),
    samples: entries,
  };
}

/** A checkpoint to be written. */
export interface CheckpointLayout<Metadata = LaidOutMetadata, Layout = WritableLayout> {
  readonly pattern: FilenamePattern;
  /** The contents of the files and the index, and the facts of them. */
  readonly metadata: Metadata;
  readonly files: readonly LaidOutFile<Layout>[];
  /** All tensors, or at least one of every file that they come from. */
  readonly samples: Iterable<Pick<AnyEntry, 'payload'>>;
  /** Length of all tensors in bytes. */
  readonly totalSize: number;
  /** The index; null for a single file. */
  readonly index: Uint8Array | null;
  /** Builds an index with other file names; for a single file, too. */
  interimIndex(nameOf: (filename: string) => string): Uint8Array;
}

/** Returns the pattern of file names for the options. Throws as `FilenamePattern`. */
function layoutPattern({ filenamePattern, variant }: CheckpointLayoutOptions): FilenamePattern {
  const pattern = new FilenamePattern(filenamePattern ?? DEFAULT_FILENAME_PATTERN, variant);
  if (pattern.text.endsWith(SHARD_EXTENSION)) return pattern;
  const expected = `a file name that ends in ${SHARD_EXTENSION}, as shards of an index must`;
  throw argumentRangeError('filenamePattern', expected, filenamePattern);
}

/**
 * Splits the tensors into files and lays out each. An empty checkpoint has one file.
 *
 * @throws InvalidTensorError as `layOut`
 * @throws FormatError `SAFETENSORS_INDEX_TOO_LARGE` for an index larger than readers accept
 * @throws TypeError, RangeError for unusable options
 */
export function* layOutCheckpoint<Metadata extends LaidOutMetadata, Layout>(
  tensors: TensorTable<Layout>,
  options: CheckpointLayoutOptions & Pick<FileWriteOptions, 'digests'>,
  metadataOf: (split: SplitSummary) => Metadata,
): Work<CheckpointLayout<Metadata, Layout>> {
  const pattern = layoutPattern(options);
  const { digests = false } = options;
  requireBoolean('digests', digests);
  const limit = parseByteSize(options.maxShardSize ?? DEFAULT_MAX_SHARD_SIZE, 'maxShardSize');
  yield;
  const shards = splitByteLengths(tensors.byteLengths, limit);
  yield;
  const totalSize = totalOf(tensors.byteLengths);
  if (shards.length === 0) shards.push([]);
  const isSharded = shards.length > 1;
  const split = { isSharded, metadata: { total_size: totalSize } };
  const metadata = metadataOf(split);
  const nameOf = (shard: number): string => pattern.filename(shard + 1, shards.length);
  const files: LaidOutFile<Layout>[] = [];
  for (const [shard, numbers] of shards.entries()) {
    yield;
    const layout = yield* tensors.layOut(numbers, metadata.file, digests);
    files.push({ name: nameOf(shard), layout });
  }
  const metadataOfIndex: ReadonlyMap<string, IndexValue> =
    metadata.index ??
    new Map<string, IndexValue>([['total_size', totalSize], ...(metadata.file ?? [])]);
  const indexOf = function* (filenameOf: (filename: string) => string): Work<Uint8Array> {
    const text = new FormattedIndex(metadataOfIndex, tensors.byteLengths.length);
    for (const [shard, numbers] of shards.entries()) {
      const filename = filenameOf(nameOf(shard));
      yield* forEachYielding(numbers, (number) => text.add(tensors.name(number), filename));
    }
    return text.encoded();
  };
  yield;
  const index = isSharded ? yield* indexOf((filename) => filename) : null;
  if (index !== null) requireIndexLength(index.byteLength);
  const interimIndex = (filenameOf: (filename: string) => string): Uint8Array =>
    runSync(indexOf(filenameOf));
  const { samples } = tensors;
  return { pattern, metadata, files, samples, totalSize, index, interimIndex };
}

/** One file to be written. */
interface FileLayout<Metadata> extends Pick<CheckpointLayout, 'samples' | 'totalSize'> {
  readonly metadata: Metadata;
  readonly layout: WritableLayout;
}

/**
 * Lays out a single file of all tensors.
 *
 * @throws As {@link layOutCheckpoint}
 */
export function layOutFile<Metadata extends LaidOutMetadata>(
  tensors: TensorTable,
  metadataOf: (split: SplitSummary) => Metadata,
  digests = false,
): FileLayout<Metadata> {
  requireBoolean('digests', digests);
  const { byteLengths, samples } = tensors;
  const totalSize = totalOf(byteLengths);
  const metadata = metadataOf({ isSharded: false, metadata: { total_size: totalSize } });
  const layout = runSync(tensors.layOut([...byteLengths.keys()], metadata.file, digests));
  return { layout, metadata, samples, totalSize };
}

function totalOf(byteLengths: Float64Array): number {
  const total = byteLengths.reduce((sum, byteLength) => sum + byteLength, 0);
  if (Number.isSafeInteger(total)) return total;
  throw argumentRangeError('tensors', 'of at most 2^53 - 1 bytes together', total);
}

function requireIndexLength(byteLength: number): void {
  if (byteLength <= DEFAULT_MAX_INDEX_BYTE_LENGTH) return;
  throw new FormatError(
    'SAFETENSORS_INDEX_TOO_LARGE',
    `expected an index of at most ${DEFAULT_MAX_INDEX_BYTE_LENGTH} bytes, found ${byteLength}: write ` +
      'one file, or shorter names, or less metadata',
  );
}

/** Throws InvalidTensorError for a name given twice, even when split into two files. */
function* requireNamesOnce(entries: readonly AnyEntry[]): Work<void> {
  const names = new Set<string>();
  yield* forEachYielding(entries, ({ name }) => {
    if (names.has(name)) rejectTensor('duplicate tensor name', name);
    names.add(name);
  });
}
