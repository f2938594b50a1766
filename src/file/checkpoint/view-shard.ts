/** The tensors of a view, in the place of a file: stored ones of another checkpoint, or computed from them. */

import { FileClosedError, TensorNotFoundError } from '../../errors/errors.js';
import type { StorageKind } from '../../tensor/storage/storage.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { progressOfPart, Transfer, type TransferOptions } from '../../work/transfer.js';
import type { CloseOptions } from '../file.js';
import { renamed, ViewContents, type ViewParts, type ViewTensor } from '../source/view.js';
import type { OtherShard } from './shard.js';

/** The checkpoint that a view is of. */
interface ViewBase {
  readonly path: string | undefined;
  readonly storage: StorageKind;
  readonly ok: boolean;
  byteLength(): number;
  getTensor(name: string): Tensor;
  residency(name?: string): number | null;
  prefetch(names: Iterable<string>, options: TransferOptions): Promise<void>;
  readTensors(names: Iterable<string>, options: TransferOptions): Promise<Map<string, Tensor>>;
}

/** Reads through the base, which it does not own: closing it ends only the view, and what `parts` has opened. */
export class ViewShard implements OtherShard {
  readonly hasChecksums = false;
  readonly #base: ViewBase;
  readonly #requireOpenBase: () => void;
  readonly #contents: ViewContents;
  readonly #closeParts: ViewParts['close'];
  /** Stored tensors under other names: the same object on every call. */
  readonly #renamed = new Map<string, Tensor>();
  #isClosed = false;

  /** `requireOpenBase` throws when the base is closed. */
  constructor(base: ViewBase, requireOpenBase: () => void, parts: ViewParts) {
    this.#base = base;
    this.#requireOpenBase = requireOpenBase;
    this.#contents = new ViewContents(parts);
    this.#closeParts = parts.close;
  }

  get path(): string | undefined {
    return this.#base.path;
  }

  get storage(): StorageKind {
    return this.#base.storage;
  }

  get ok(): boolean {
    return !this.#isClosed && this.#base.ok;
  }

  get byteLength(): number {
    this.verify();
    return this.#base.byteLength();
  }

  get contents(): ViewContents {
    this.verify();
    return this.#contents;
  }

  verify(): void {
    if (this.#isClosed) throw new FileClosedError({ path: this.path });
    this.#requireOpenBase();
  }

  /** A view has no descriptor. */
  reclaimDescriptor(): boolean {
    return false;
  }

  /** Files of the base are verified by the base. */
  async verifyBytes(): Promise<void> {}

  findTensor(name: string): Tensor | undefined {
    const { contents } = this;
    const at = contents.find(name);
    return at === -1 ? undefined : this.#tensor(contents.tensor(at));
  }

  #tensor({ entry, sources, computation }: ViewTensor): Tensor {
    if (computation !== null) {
      return computation.compute(
        new Map(sources.map((source) => [source, this.#base.getTensor(source)])),
      );
    }
    const stored = this.#base.getTensor(sources[0] as string);
    const known = this.#renamed.get(entry.name);
    if (known !== undefined) return known;
    const own = renamed(stored, entry.name);
    if (own !== stored) this.#renamed.set(entry.name, own);
    return own;
  }

  residency(name?: string): number | null {
    this.verify();
    if (name === undefined) return this.#base.residency();
    let sum = 0;
    for (const source of this.#find(name).sources) {
      const bytes = this.#base.residency(source);
      if (bytes === null) return null;
      sum += bytes;
    }
    return sum;
  }

  async prefetch(names?: Iterable<string>, options: TransferOptions = {}): Promise<void> {
    const tensors = Array.from(names ?? this.contents.names(), (name) => this.#find(name));
    await this.#base.prefetch(new Set(tensors.flatMap(({ sources }) => sources)), options);
  }

  async readTensors(
    names?: Iterable<string>,
    options: TransferOptions = {},
  ): Promise<Map<string, Tensor>> {
    const tensors = Array.from(new Set(names ?? this.contents.names()), (name) => this.#find(name));
    const { signal } = options;
    const total = tensors.reduce((sum, { entry }) => sum + entry.byteLength, 0);
    const transfer = new Transfer(total, options);
    const stored = tensors.filter(({ computation }) => computation === null);
    // Both have their sources before the first turn, so close() does not affect them.
    const computed = tensors.map((tensor) =>
      tensor.computation === null ? null : this.#tensor(tensor),
    );
    const read = await this.#base.readTensors(
      stored.map(({ sources }) => sources[0] as string),
      { signal, onProgress: progressOfPart(transfer) },
    );
    const result = new Map<string, Tensor>();
    for (const [i, { entry, sources }] of tensors.entries()) {
      const made = computed[i] ?? null;
      const { name } = entry;
      if (made === null) {
        result.set(name, renamed(read.get(sources[0] as string) as Tensor, name));
      } else {
        result.set(name, await TensorOf.copyYielding(made, signal));
        transfer.advance(entry.byteLength);
      }
    }
    transfer.finish();
    return result;
  }

  close(options: CloseOptions = {}): void {
    this.#isClosed = true;
    this.#renamed.clear();
    this.#closeParts?.(options);
  }

  #find(name: string): ViewTensor {
    const { contents } = this;
    const entry = contents.find(name);
    // The checkpoint knows near names, and the tensors that cannot be shown.
    if (entry === -1) throw new TensorNotFoundError(name, [], { path: this.path });
    return contents.tensor(entry);
  }
}
