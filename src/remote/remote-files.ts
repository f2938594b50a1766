/** The tensors of remote files, fetched by ranges. */

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
import { runAsync } from '../work/work.js';
import { FetchQueue } from './fetch-queue.js';
import {
  type FetchableTensor,
  type FetchLimits,
  fetchTensors,
  wantSlice,
  wantTensor,
} from './fetch-tensors.js';
import type { RemoteContents } from './read-header.js';
import type { RemoteShards } from './remote-shards.js';
import type { RemoteTensors, TensorFetchOptions } from './remote-tensors.js';

/** Owns the shards. */
export class RemoteFiles implements RemoteTensors {
  readonly #shards: RemoteShards;
  readonly #limits: FetchLimits;
  readonly #fetches: FetchQueue;

  constructor(shards: RemoteShards, limits: FetchLimits) {
    this.#shards = shards;
    this.#limits = limits;
    this.#fetches = new FetchQueue(limits.concurrency);
  }

  get files(): CountedFiles {
    return this.#shards;
  }

  get format(): 'safetensors' | 'gguf' | 'dcp' {
    return this.#shards.info?.format ?? 'safetensors';
  }

  get extra(): PlainValue {
    return this.#shards.info?.extra() ?? null;
  }

  get path(): string {
    return this.#shards.path;
  }

  get shards(): readonly string[] {
    return this.#shards.names;
  }

  get checks(): readonly CheckpointCheck[] {
    return this.#shards.checks;
  }

  get ignoredFiles(): readonly string[] {
    return this.#shards.source.chosen?.model.ignoredFiles ?? [];
  }

  get concurrency(): number {
    return this.#limits.concurrency;
  }

  async byteLength(signal: AbortSignal): Promise<number> {
    const headers = await runAsync(this.#shards.allContents(), signal);
    return headers.reduce((sum, header) => sum + header.dataStart + header.dataByteLength, 0);
  }

  sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined> {
    return this.#shards.sibling(name, signal);
  }

  verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport> {
    return this.#shards.verify(signal, reason);
  }

  pathOf(shard: string): string {
    return this.#shards.file(this.shards.indexOf(shard)).path;
  }

  requireFetchable(tensor: LocatedTensor): number {
    return wantTensor(this.#fetchable(tensor), this.#limits).copy.byteLength;
  }

  async fetch(
    tensors: readonly LocatedTensor[],
    { onProgress, maxGapByteLength }: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor[]> {
    const { digest } = this.#limits;
    const wanted = tensors.map((tensor) => wantTensor(this.#fetchable(tensor), this.#limits));
    return await fetchTensors(
      wanted,
      this.#fetches,
      { onProgress, maxGapByteLength, digest },
      scope,
    );
  }

  async fetchSlice(
    tensor: LocatedTensor,
    index: SliceIndices,
    { onProgress, maxGapByteLength }: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor> {
    const { digest, maxBufferByteLength } = this.#limits;
    const wanted = [wantSlice(this.#fetchable(tensor), index, maxBufferByteLength)];
    const [part] = await fetchTensors(
      wanted,
      this.#fetches,
      { onProgress, maxGapByteLength, digest },
      scope,
    );
    return part as Tensor;
  }

  withoutSecrets(error: unknown): unknown {
    return this.#shards.source.withoutSecrets(error);
  }

  close(): void {
    this.#shards.source.close();
  }

  #fetchable({ shard, name, contents, entry }: LocatedTensor): FetchableTensor {
    return { name, header: contents as RemoteContents, entry, file: this.#shards.file(shard) };
  }
}
