/** The tensors of a view of a remote checkpoint: fetched under other names, or computed from what is fetched. */

import type {
  CheckpointCheck,
  UnverifiedReason,
  VerificationReport,
} from '../file/shards/verification-report.js';
import type { ShardHeader, SiblingFile } from '../file/source/facts.js';
import { renamed, ViewContents, type ViewParts, type ViewTensor } from '../file/source/view.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { progressOfPart, Transfer, type TransferOptions } from '../work/transfer.js';
import type { FoundTensor, RemoteTensors, TensorFetchOptions } from './remote-tensors.js';

/** The checkpoint that a view is of. */
export interface RemoteViewBase {
  readTensors(
    names: Iterable<string>,
    options: TensorFetchOptions & TransferOptions,
  ): Promise<Map<string, Tensor>>;
  getSlice(name: string, ...args: readonly unknown[]): Promise<Tensor>;
}

/** Reads through the base, which it does not own: closing it ends only the view. */
export class RemoteView implements RemoteTensors {
  readonly index = null;
  readonly #base: RemoteViewBase;
  readonly #tensors: RemoteTensors;
  readonly #requireOpenBase: () => void;
  readonly #contents: ViewContents;

  /** `tensors` are those of the base; `requireOpenBase` throws when the base is closed. */
  constructor(
    base: RemoteViewBase,
    tensors: RemoteTensors,
    requireOpenBase: () => void,
    parts: ViewParts,
  ) {
    this.#base = base;
    this.#tensors = tensors;
    this.#requireOpenBase = requireOpenBase;
    this.#contents = new ViewContents(parts);
  }

  get path(): string {
    return this.#tensors.path;
  }

  get names(): readonly string[] {
    return this.#tensors.names;
  }

  get checks(): readonly CheckpointCheck[] {
    return this.#tensors.checks;
  }

  get ignoredFiles(): readonly string[] {
    return this.#tensors.ignoredFiles;
  }

  get concurrency(): number {
    return this.#tensors.concurrency;
  }

  onlyContents(): ViewContents {
    return this.#contents;
  }

  requireOpen(): void {
    this.#requireOpenBase();
  }

  async contentsOf(): Promise<ViewContents> {
    this.requireOpen();
    return this.#contents;
  }

  async allContents(): Promise<ViewContents[]> {
    return [await this.contentsOf()];
  }

  knownContents(): ViewContents[] {
    return [this.#contents];
  }

  async headers(): Promise<ShardHeader[]> {
    this.requireOpen();
    return [];
  }

  async byteLength(signal: AbortSignal): Promise<number> {
    this.requireOpen();
    return await this.#tensors.byteLength(signal);
  }

  async sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined> {
    this.requireOpen();
    return await this.#tensors.sibling(name, signal);
  }

  /** Files of the base are verified by the base. */
  async verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport> {
    this.requireOpen();
    return await this.#tensors.verify(signal, reason);
  }

  pathOf(shard: string): string {
    return this.#tensors.pathOf(shard);
  }

  /** The base knows what fits into a buffer. */
  requireFetchable({ entry }: FoundTensor): number {
    return this.#contents.tensor(entry).entry.byteLength;
  }

  async fetch(
    found: readonly FoundTensor[],
    { onProgress, maxGapByteLength }: TensorFetchOptions,
    { signal }: AbortController,
  ): Promise<Tensor[]> {
    const tensors = found.map(({ entry }) => this.#contents.tensor(entry));
    const total = tensors.reduce((sum, { entry }) => sum + entry.byteLength, 0);
    const transfer = new Transfer(total, { signal, onProgress });
    const stored = tensors.filter(({ computation }) => computation === null);
    const names = stored.map(({ sources }) => sources[0] as string);
    const options = {
      signal,
      onProgress: progressOfPart(transfer),
      ...(maxGapByteLength === undefined ? {} : { maxGapByteLength }),
    };
    const read = names.length === 0 ? new Map() : await this.#base.readTensors(names, options);
    const result: Tensor[] = [];
    for (const { entry, sources, computation } of tensors) {
      result.push(
        computation === null
          ? renamed(read.get(sources[0] as string) as Tensor, entry.name)
          : await computation.fetch([], { signal, onProgress: progressOfPart(transfer) }),
      );
    }
    transfer.finish();
    return result;
  }

  async fetchSlice(
    { entry }: FoundTensor,
    index: SliceIndices,
    { onProgress }: TensorFetchOptions,
    { signal }: AbortController,
  ): Promise<Tensor> {
    const { sources, computation, entry: facts }: ViewTensor = this.#contents.tensor(entry);
    const options = { signal, onProgress };
    if (computation !== null) return await computation.fetch(index, options);
    return renamed(await this.#base.getSlice(sources[0] as string, ...index, options), facts.name);
  }

  /** Errors of the base have none any more. */
  withoutSecrets(error: unknown): unknown {
    return error;
  }

  close(): void {}
}
