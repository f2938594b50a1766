/** Reads stored tensors for dequantizing, window by window: rows of a weight come one after the other. */

import { constants } from 'node:buffer';
import type { SiblingFile, TensorEntry } from '../../file/source/tensor-info.js';
import { DTYPES } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { ReadableSource } from '../../quantized/source.js';
import { planSlice, type SliceIndices } from '../../tensor/slice.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { type DigestOf, type Stored, StoredDigests, type StoredPart } from './stored-digests.js';

/** Where stored tensors are: files on this machine, or on another one. */
export interface StoredBytes<Tensor extends Stored> {
  /** The file or index, for errors. */
  readonly path: string;
  /** All tensors. */
  readonly tensors: readonly Tensor[];
  /** Bytes to read at once, at least. */
  readonly windowByteLength: number;
  /** Reads parts of tensors, in the order given. */
  read(
    parts: readonly StoredPart<Tensor>[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Uint8Array<ArrayBuffer>[]>;
  /** Returns the digest to compare a tensor with. */
  readonly digestOf: DigestOf<Tensor>;
  /** Metadata of the index and of all files. */
  readonly metadata?: readonly (ReadonlyMap<string, string> | null)[];
  /** Reads a small file next to the weights; undefined when there is none. */
  readSibling(name: string, signal: AbortSignal | undefined): Promise<SiblingFile | undefined>;
}

/** Bytes of a tensor that are being read, or were. */
interface Window {
  readonly begin: number;
  readonly end: number;
  readonly bytes: Promise<Uint8Array<ArrayBuffer>>;
}

/** A call's options, which come last. */
interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Stored tensors as `dequantize` takes them. Of each weight under way a window is kept, and the next one read ahead.
 * All reads throw `SAFETENSORS_CHECKSUM_MISMATCH` as `StoredDigests` does.
 */
export class StoredReads<T extends Stored> implements ReadableSource {
  readonly path: string;
  readonly #source: StoredBytes<T>;
  readonly #byName: ReadonlyMap<string, T>;
  readonly #digests: StoredDigests<T>;
  /** Comparisons under way, by name: two of one tensor would interrupt each other. */
  readonly #comparing = new Map<string, Promise<void>>();
  readonly #windows = new Map<string, readonly Window[]>();

  constructor(source: StoredBytes<T>) {
    this.path = source.path;
    this.#source = source;
    this.#byName = new Map(source.tensors.map((tensor) => [tensor.name, tensor]));
    this.#digests = new StoredDigests(source.digestOf);
  }

  async tensors(): Promise<TensorEntry[]> {
    return this.#source.tensors.map(({ name, info }) => {
      return { ...info, name, file: '', byteLength: tensorByteLength(info) };
    });
  }

  async readTensors(
    names: Iterable<string> = [],
    { signal }: CallOptions = {},
  ): Promise<Map<string, Tensor>> {
    const tensors = Array.from(names, (name) => this.#find(name));
    const parts = tensors.map((tensor) => {
      return { tensor, begin: 0, byteLength: tensorByteLength(tensor.info) };
    });
    const read = await this.#readParts(parts, signal);
    return new Map(
      tensors.map((tensor, i) => [
        tensor.name,
        this.#tensorOf(tensor, tensor.info.shape, read[i] as Uint8Array<ArrayBuffer>),
      ]),
    );
  }

  async getTensor(name: string, options?: CallOptions): Promise<Tensor> {
    return (await this.readTensors([name], options)).get(name) as Tensor;
  }

  /** Reads a small file next to the weights; undefined when there is none. */
  async sibling(name: string, { signal }: CallOptions = {}): Promise<SiblingFile | undefined> {
    return await this.#source.readSibling(name, signal);
  }

  /** The metadata of the index and of all files. */
  async metadataOfFiles(): Promise<readonly (ReadonlyMap<string, string> | null)[]> {
    return this.#source.metadata ?? [];
  }

  /** Some rows: what lies together. The last item of `index` are the call's options. */
  async getSlice(name: string, ...index: SliceIndices): Promise<Tensor> {
    const rows = [...index] as unknown[];
    const { signal } = rows.pop() as CallOptions;
    const tensor = this.#find(name);
    const { dtype, shape } = tensor.info;
    const plan = planSlice(shape, rows as SliceIndices, DTYPES[dtype].bits, {
      tensor: name,
    });
    const bytes = await this.#window(tensor, plan.byteOffset, plan.byteLength, signal);
    return this.#tensorOf(tensor, plan.shape, bytes);
  }

  /**
   * Compares the tensors with their digests: reads those again whose bytes were not all read in order.
   *
   * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
   */
  async compare(names: Iterable<string>, signal: AbortSignal | undefined): Promise<void> {
    for (const name of names) {
      const comparing = this.#comparing.get(name) ?? this.#compareOne(name, signal);
      this.#comparing.set(name, comparing);
      try {
        await comparing;
      } finally {
        this.#comparing.delete(name);
      }
    }
  }

  async #compareOne(name: string, signal: AbortSignal | undefined): Promise<void> {
    const tensor = this.#find(name);
    const whole = tensorByteLength(tensor.info);
    for (let begin = 0; !this.#digests.isSettled(tensor); ) {
      // Rows that were read meanwhile have interrupted the run.
      if (begin > 0 && begin >= whole) begin = 0;
      const byteLength = Math.min(this.#source.windowByteLength, whole - begin);
      await this.#readParts([{ tensor, begin, byteLength }], signal);
      begin += byteLength;
    }
  }

  /** Returns bytes from the windows. Those asked for next begin at or after these. */
  async #window(
    tensor: T,
    begin: number,
    byteLength: number,
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const { name, info } = tensor;
    const end = begin + byteLength;
    const whole = tensorByteLength(info);
    const kept = this.#windows.get(name) ?? [];
    const isAhead = kept.some((window) => window.begin <= begin && begin < window.end);
    const windows = isAhead ? kept.filter((window) => window.end > begin) : [];
    const read = (from: number, least: number): void => {
      const length = Math.min(Math.max(least, this.#source.windowByteLength), whole - from);
      windows.push(this.#read(tensor, from, length, signal));
    };
    const last = windows.at(-1)?.end ?? begin;
    if (last < end) read(last, end - last);
    const [first] = windows as [Window];
    if (windows.length === 1 && first.end < whole) read(first.end, 0);
    if (end === whole) this.#windows.delete(name);
    else this.#windows.set(name, windows);
    const bytes = await first.bytes;
    if (end <= first.end) return bytes.subarray(begin - first.begin, end - first.begin);
    const joined = new Uint8Array(byteLength);
    for (const window of windows) {
      const [from, to] = [Math.max(begin, window.begin), Math.min(end, window.end)];
      if (from >= to) break;
      const part = (await window.bytes).subarray(from - window.begin, to - window.begin);
      joined.set(part, from - begin);
    }
    return joined;
  }

  #read(tensor: T, begin: number, byteLength: number, signal: AbortSignal | undefined): Window {
    const read = this.#readParts([{ tensor, begin, byteLength }], signal);
    const bytes = read.then(([only]) => only as Uint8Array<ArrayBuffer>);
    // A failure of what is read ahead counts when it is needed.
    bytes.catch(() => {});
    return { begin, end: begin + byteLength, bytes };
  }

  async #readParts(
    parts: readonly StoredPart<T>[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Uint8Array<ArrayBuffer>[]> {
    const read = this.#source.read(parts, signal);
    const followed = parts.map((part, i) => {
      return this.#digests.follow(
        part,
        read.then((all) => all[i] as Uint8Array<ArrayBuffer>),
      );
    });
    return await Promise.all(followed);
  }

  #tensorOf({ name, info }: T, shape: readonly number[], bytes: Uint8Array<ArrayBuffer>): Tensor {
    const limits = { maxBufferByteLength: constants.MAX_LENGTH, path: this.path };
    return TensorOf.ofBytes(name, info.dtype, shape, bytes, limits);
  }

  #find(name: string): T {
    return this.#byName.get(name) as T;
  }
}
