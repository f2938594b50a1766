/** The interface of what a remote checkpoint shows: the tensors of files, or those of a view. */

import type {
  CheckpointCheck,
  UnverifiedReason,
  VerificationReport,
} from '../file/shards/verification-report.js';
import type { CountedFiles, LocatedTensor } from '../file/source/catalog.js';
import type { PlainValue } from '../file/source/plain-value.js';
import type { SiblingFile } from '../file/source/tensor-info.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import type { TransferProgress } from '../work/transfer.js';

/** Options of fetching. */
export interface TensorFetchOptions {
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
  readonly maxGapByteLength?: number | undefined;
}

/** Tensors by shard; work ends with the signal of its scope. */
export interface RemoteTensors {
  readonly path: string;
  readonly format: 'safetensors' | 'gguf' | 'dcp';
  /** What a file has besides tensors; null for safetensors. */
  readonly extra: PlainValue;
  /** Names of the shards; of a view those of its base. */
  readonly shards: readonly string[];
  /** Where the tensors are listed. */
  readonly files: CountedFiles;
  readonly checks: readonly CheckpointCheck[];
  readonly ignoredFiles: readonly string[];
  /** Requests at a time. */
  readonly concurrency: number;
  byteLength(signal: AbortSignal): Promise<number>;
  sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined>;
  verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport>;
  /** The address of a shard, by its name, for errors. */
  pathOf(shard: string): string;
  /** Length of a tensor, unless it fits into no buffer. */
  requireFetchable(tensor: LocatedTensor): number;
  /** Fetches whole tensors into new memory, in the order given. */
  fetch(
    tensors: readonly LocatedTensor[],
    options: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor[]>;
  /** Fetches a part of a tensor into new memory. */
  fetchSlice(
    tensor: LocatedTensor,
    index: SliceIndices,
    options: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor>;
  /** Returns the error without what only the caller may see. */
  withoutSecrets(error: unknown): unknown;
  close(): void;
}
