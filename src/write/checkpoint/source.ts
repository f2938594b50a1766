/** The interface of a source of a new checkpoint, of any format and at any place. */

import type { SiblingPlace } from '../../file/checkpoint/find-files.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { Dtype } from '../../header/dtype.js';
import type { Work } from '../../work/work.js';
import type { ComputedPayload, FilePayload, MemoryPayload } from '../input/tensor-input.js';
import type { SelectableInfo } from '../selection/options.js';
import type { SelectionSource, Unselectable } from '../selection/select.js';
import type { TensorTable } from './layout.js';
import type { SidecarFile } from './sidecar-files.js';

/** A tensor of a source. */
export interface SourceTensor<Info extends SelectableInfo = SelectableInfo> {
  readonly name: string;
  /** The facts passed to the caller's functions. */
  readonly info: Info & { readonly dtype: Dtype };
  /** For a quantized weight: the dtype of its values, which `payload` has. */
  readonly valueDtype?: Dtype;
  /** The place of its elements, to find tensors that share bytes. */
  readonly memory: TensorMemory;
  /** The source of its bytes. */
  readonly payload: FilePayload | ComputedPayload | MemoryPayload;
}

/** Tensors of a source one by one, and their names for a selection. */
export interface ListedTensors<Info extends SelectableInfo> extends SelectionSource {
  /** In the order of the writes; names are unique. */
  readonly tensors: readonly SourceTensor<Info>[];
  /** Tensors that cannot be written. */
  readonly unselectable: readonly Unselectable<Info>[];
}

/** What several sources leave out. */
export interface JoinedReport {
  /** Names of the tensors that were not chosen. */
  readonly excluded: readonly string[];
}

/** An open source; `path` is that of its index or only file. */
export interface CheckpointSource<Info extends SelectableInfo = SelectableInfo>
  extends SiblingPlace {
  /** Paths of all files that it reads: of the index, too. Of several sources only of those that lose no tensor. */
  readonly files: readonly string[];
  /** Of several sources that are written as one: what they leave out; absent for one source. Complete after `list`. */
  readonly joined?: JoinedReport;
  /** Files that the source brings in place of those next to it, such as a configuration. */
  readonly generated?: readonly SidecarFile[];
  /** Names that several shards or sources have: one tensor of each is listed. Complete after `list`. */
  readonly duplicates: readonly string[];
  /** All tensors unchanged, without an object each; null when the source has no such table. */
  readonly table: TensorTable | null;
  /** Lists all tensors one by one. */
  list(): Work<ListedTensors<Info>>;
  /** Metadata of the index and of the files with these tensors (all by default); null for formats without metadata. */
  metadataOf(tensors?: readonly SourceTensor<Info>[]): SourceMetadata | null;
  /** Whether written files are read back and compared: their bytes were gathered, swapped or inflated. */
  readonly isReadBack?: boolean;
  /** Checks the bytes of tensors about to be written, unless the writing itself checks them. */
  verify?(tensors: readonly SourceTensor<Info>[], signal: AbortSignal | undefined): Promise<void>;
  /** Closes all files. May be called again. */
  close(): void;
}
