/** The tensors of a view of a remote checkpoint: fetched under other names, or computed from what is fetched. */

import type {
  CheckpointCheck,
  UnverifiedReason,
  VerificationReport,
} from '../file/shards/verification-report.js';
import type { CountedFiles, LocatedTensor } from '../file/source/catalog.js';
import type { PlainValue } from '../file/source/plain-value.js';
import type { SiblingFile } from '../file/source/tensor-info.js';
import { renamed, ViewContents, type ViewParts, type ViewTensor } from '../file/source/view.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { progressOfPart, Transfer, type TransferOptions } from '../work/transfer.js';
import { immediate, type Work } from '../work/work.js';
import type { RemoteTensors, TensorFetchOptions } from './remote-tensors.js';

/** The checkpoint that a view is of. */
interface RemoteViewBase {
  readTensors(
    names: Iterable<string>,
    options: TensorFetchOptions & TransferOptions,
  ): Promise<Map<string, Tensor>>;
  getSlice(name: string, ...args: readonly unknown[]): Promise<Tensor>;
}

/** Reads through the base, which it does not own: closing it ends only the view. */
export class RemoteView implements RemoteTensors {
  readonly #base: RemoteViewBase;
  readonly #tensors: RemoteTensors;
  readonly #requireOpenBase: () => void;
  readonly #contents: ViewContents;
  readonly #parts: ViewParts;

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
    this.#parts = parts;
  }

  get format(): 'safetensors' | 'gguf' | 'dcp' {
    return this.#tensors.format;
  }

  get extra(): PlainValue {
    return this.#tensors.extra;
  }

  get path(): string {
    return this.#tensors.path;
  }

  get shards(): readonly string[] {
    return this.#tensors.shards;
  }

  get files(): CountedFiles {
    const [base, contents] = [this.#tensors.files, this.#contents];
    const requireOpen = this.#requireOpenBase;
    const all = (): Work<ViewContents[]> =>
      immediate(() => {
        requireOpen();
        return [contents];
      });
    return {
      path: this.path,
      index: null,
      names: this.shards.slice(0, 1),
      requireOpen,
      onlyContents: () => contents,
      contentsOf: all,
      allContents: all,
      *contentsAndConfig() {
        const { config } = yield* base.contentsAndConfig();
        return { contents: yield* all(), config };
      },
    };
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

  async byteLength(signal: AbortSignal): Promise<number> {
    this.#requireOpenBase();
    return await this.#tensors.byteLength(signal);
  }

  async sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined> {
    this.#requireOpenBase();
    const { sibling } = this.#parts;
    return await (sibling === undefined
      ? this.#tensors.sibling(name, signal)
      : sibling(name, signal));
  }

  /** Files of the base are verified by the base. */
  async verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport> {
    this.#requireOpenBase();
    return await this.#tensors.verify(signal, reason);
  }

  pathOf(shard: string): string {
    return this.#tensors.pathOf(shard);
  }

  /** The base knows what fits into a buffer. */
  requireFetchable({ entry }: LocatedTensor): number {
    return this.#contents.tensor(entry).entry.byteLength;
  }

  async fetch(
    found: readonly LocatedTensor[],
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
    { entry }: LocatedTensor,
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

  close(): void {
    this.#parts.close?.({});
  }
}
