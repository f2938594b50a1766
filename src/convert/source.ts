/** What a conversion takes its tensors from, whatever the format. */

import type { ForeignFormatError } from '../errors/errors.js';
import type { ArchiveContent } from '../foreign/checksums.js';
import type { ForeignTensorInfo } from '../foreign/foreign-file.js';
import type { ForeignTensor } from '../foreign/foreign-tensor.js';
import type { RootKeys } from '../foreign/torch/roots.js';
import type { Dtype } from '../format/dtype.js';
import { type SelectionSource, selectionSource } from '../selection/select.js';
import type { IndexMetadata } from '../shards/metadata.js';
import type { LendingStorage } from '../storage/storage.js';

/** Metadata of a safetensors checkpoint. */
export interface SourceMetadata {
  /** Of every file. */
  readonly files: readonly (ReadonlyMap<string, string> | null)[];
  /** Of the index; null for a single file. */
  readonly index: IndexMetadata | null;
}

/** What is known of a tensor of a source. */
export interface SourceTensorInfo {
  /** The dtype that safetensors has for it; null for a tensor that cannot be converted. */
  readonly dtype: Dtype | null;
  /** Dimensions in elements, outermost first; empty for a scalar, and for what cannot be converted. */
  readonly shape: readonly number[];
}

/** A tensor of a source, as functions of the caller see it. */
export interface SourceTensor {
  readonly name: string;
  readonly info: ForeignTensorInfo;
  readonly facts: ForeignTensor;
}

/** An open source, as its format gives it. */
export interface OpenSource {
  /** As given, for messages. */
  readonly path: string;
  /** In the order of their bytes, file by file; no two have one name. */
  readonly tensors: readonly ForeignTensor[];
  /** Why other tensors cannot be read; each has the tensor's name. */
  readonly problems: readonly ForeignFormatError[];
  /** The keys that lead to the state dict of a checkpoint of torch; undefined for other formats. */
  readonly root: RootKeys | undefined;
  /** Null for formats that have none. */
  readonly metadata: SourceMetadata | null;
  /** Files that have checksums, and these. */
  readonly archives: ReadonlyMap<LendingStorage, ArchiveContent>;
  /** Closes all files. */
  close(): void;
}

/** The same, of which tensors can be selected. */
export interface ConversionSource extends OpenSource, SelectionSource {
  readonly path: string;
}

/** Lets tensors of a source be found by their names and aliases. */
export function sourceOf(source: OpenSource): ConversionSource {
  const { path, tensors, problems, metadata } = source;
  const unreadable = problems.map(({ tensor }) => tensor as string);
  const names = new Set([...tensors.map(({ name }) => name), ...unreadable]);
  const aliases = metadata && aliasesIn(metadata);
  return { ...source, ...selectionSource(names, aliases, path), path };
}

/** The metadata that may name aliases, as with `openCheckpoint`. */
function aliasesIn({ files, index }: SourceMetadata): ReadonlyMap<string, string> | null {
  return index === null ? (files[0] ?? null) : index.metadata;
}
