/** The interface of what a remote checkpoint shows: the tensors of files, or those of a view. */

import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import type {
  CheckpointCheck,
  UnverifiedReason,
  VerificationReport,
} from '../file/shards/verification-report.js';
import type { ListedContents, ShardHeader, SiblingFile } from '../file/source/facts.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import type { TransferProgress } from '../work/transfer.js';

/** A tensor, by the contents of its shard. */
export interface FoundTensor {
  readonly shard: number;
  /** Its name in the shard. */
  readonly name: string;
  readonly contents: ListedContents;
  readonly entry: number;
}

/** Options of fetching. */
export interface TensorFetchOptions {
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
  readonly maxGapByteLength?: number | undefined;
}

/** Tensors by shard; work ends with the signal of its scope. */
export interface RemoteTensors {
  readonly path: string;
  /** Names of the shards. */
  readonly names: readonly string[];
  readonly checks: readonly CheckpointCheck[];
  readonly ignoredFiles: readonly string[];
  /** Null when there is one shard, whose contents are those of `onlyContents`. */
  readonly index: CheckpointIndex | null;
  /** Requests at a time. */
  readonly concurrency: number;
  onlyContents(): ListedContents;
  /** Throws once what the tensors are read through is closed. */
  requireOpen(): void;
  contentsOf(shard: number, signal: AbortSignal): Promise<ListedContents>;
  allContents(signal: AbortSignal): Promise<readonly ListedContents[]>;
  /** The same without requests; null unless all are known. */
  knownContents(): readonly ListedContents[] | null;
  /** The headers of files; empty for a view. */
  headers(signal: AbortSignal): Promise<ShardHeader[]>;
  byteLength(signal: AbortSignal): Promise<number>;
  sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined>;
  verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport>;
  /** The address of a shard, by its name, for errors. */
  pathOf(shard: string): string;
  /** Length of a tensor, unless it fits into no buffer. */
  requireFetchable(tensor: FoundTensor): number;
  /** Fetches whole tensors into new memory, in the order given. */
  fetch(
    tensors: readonly FoundTensor[],
    options: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor[]>;
  /** Fetches a part of a tensor into new memory. */
  fetchSlice(
    tensor: FoundTensor,
    index: SliceIndices,
    options: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor>;
  /** Returns the error without what only the caller may see. */
  withoutSecrets(error: unknown): unknown;
  close(): void;
}
