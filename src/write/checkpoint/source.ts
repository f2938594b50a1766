/** What a checkpoint is written from, whatever its format and wherever it is. */

import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { Dtype } from '../../header/dtype.js';
import type { Steps } from '../../platform/io/steps.js';
import type { FilePayload, MadePayload } from '../input/tensor-input.js';
import type { SelectableInfo } from '../selection/options.js';
import type { SelectionSource, Unselectable } from '../selection/select.js';
import type { TensorTable } from './layout.js';

/** A tensor of a source. */
export interface SourceTensor<Info extends SelectableInfo = SelectableInfo> {
  readonly name: string;
  /** What functions of the caller see of it. */
  readonly info: Info & { readonly dtype: Dtype };
  /** Where its elements lie, to find tensors that share bytes. */
  readonly memory: TensorMemory;
  /** Where its bytes are. */
  readonly payload: FilePayload | MadePayload;
}

/** Tensors of a source one by one, and the names by which they are found. */
export interface ListedTensors<Info extends SelectableInfo> extends SelectionSource {
  /** In the order in which they are written; no two have one name. */
  readonly tensors: readonly SourceTensor<Info>[];
  /** Tensors that cannot be written. */
  readonly unselectable: readonly Unselectable<Info>[];
}

/** An open source. */
export interface CheckpointSource<Info extends SelectableInfo = SelectableInfo> {
  /** Its index or only file. */
  readonly path: string;
  /** All tensors as they are, of which no objects need to be made; null when there is no such table. */
  readonly table: TensorTable | null;
  /** All tensors one by one. */
  list(): Steps<ListedTensors<Info>>;
  /** Metadata of the files that have these tensors, all by default, and of the index; null for formats without. */
  metadataOf(tensors?: readonly SourceTensor<Info>[]): SourceMetadata | null;
  /** Checks the bytes of tensors that are about to be written, as far as the writing does not. */
  verify?(tensors: readonly SourceTensor<Info>[], signal: AbortSignal | undefined): Promise<void>;
  /** Closes all files. May be called again. */
  close(): void;
}
