/** The tensors of remote files: located by headers, fetched by ranges. */

import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import type {
  CheckpointCheck,
  UnverifiedReason,
  VerificationReport,
} from '../file/shards/verification-report.js';
import { type ShardHeader, type SiblingFile, shardHeader } from '../file/source/facts.js';
import type { Header } from '../header/header.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { runAsync } from '../work/work.js';
import { FetchQueue } from './fetch-queue.js';
import {
  type FetchLimits,
  fetchTensors,
  type LocatedTensor,
  wantSlice,
  wantTensor,
} from './fetch-tensors.js';
import type { RemoteShards } from './remote-shards.js';
import type { FoundTensor, RemoteTensors, TensorFetchOptions } from './remote-tensors.js';

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

  get path(): string {
    return this.#shards.source.file.path;
  }

  get names(): readonly string[] {
    return this.#shards.names;
  }

  get checks(): readonly CheckpointCheck[] {
    return this.#shards.checks;
  }

  get ignoredFiles(): readonly string[] {
    return this.#shards.source.chosen?.model.ignoredFiles ?? [];
  }

  get index(): CheckpointIndex | null {
    return this.#shards.index;
  }

  get concurrency(): number {
    return this.#limits.concurrency;
  }

  onlyContents(): Header {
    return this.#shards.onlyHeader;
  }

  /** Nothing else is needed. */
  requireOpen(): void {}

  contentsOf(shard: number, signal: AbortSignal): Promise<Header> {
    return this.#shards.header(shard, signal);
  }

  allContents(signal: AbortSignal): Promise<Header[]> {
    return this.#shards.headers(signal);
  }

  knownContents(): readonly Header[] | null {
    return this.#shards.knownHeaders;
  }

  async headers(signal: AbortSignal): Promise<ShardHeader[]> {
    const headers: ShardHeader[] = [];
    for (const [shard, header] of (await this.#shards.headers(signal)).entries()) {
      headers.push(await runAsync(shardHeader(header, this.names[shard] as string), signal));
    }
    return headers;
  }

  async byteLength(signal: AbortSignal): Promise<number> {
    const headers = await this.#shards.headers(signal);
    return headers.reduce((sum, header) => sum + header.dataStart + header.dataByteLength, 0);
  }

  sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined> {
    return this.#shards.sibling(name, signal);
  }

  verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport> {
    return this.#shards.verify(signal, reason);
  }

  pathOf(shard: string): string {
    return this.#shards.file(this.names.indexOf(shard)).path;
  }

  requireFetchable(tensor: FoundTensor): number {
    return wantTensor(this.#located(tensor), this.#limits).copy.byteLength;
  }

  async fetch(
    tensors: readonly FoundTensor[],
    { onProgress, maxGapByteLength }: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor[]> {
    const { digest } = this.#limits;
    const wanted = tensors.map((tensor) => wantTensor(this.#located(tensor), this.#limits));
    return await fetchTensors(
      wanted,
      this.#fetches,
      { onProgress, maxGapByteLength, digest },
      scope,
    );
  }

  async fetchSlice(
    tensor: FoundTensor,
    index: SliceIndices,
    { onProgress, maxGapByteLength }: TensorFetchOptions,
    scope: AbortController,
  ): Promise<Tensor> {
    const { digest, maxBufferByteLength } = this.#limits;
    const wanted = [wantSlice(this.#located(tensor), index, maxBufferByteLength)];
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

  #located({ shard, name, contents, entry }: FoundTensor): LocatedTensor {
    return { name, header: contents as Header, entry, file: this.#shards.file(shard) };
  }
}
