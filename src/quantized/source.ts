/** Where stored tensors come from: an open file or checkpoint, which answers at once, or a remote one. */

import { argumentTypeError, requireFunction } from '../errors/arguments.js';
import type { SiblingFile } from '../file/source/facts.js';
import type { TensorSource } from '../file/source/tensor-source.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { call, type Work } from '../work/work.js';
import { inFile } from './plan/refusals.js';
import type { TensorPart, TensorReader } from './tiles/reading.js';

/** An open handle that `dequantize` takes: a Checkpoint or a RemoteCheckpoint. */
export interface QuantizedSource extends TensorSource {
  /** A tensor; a promise of one when it has to be fetched. */
  getTensor(name: string): Tensor | Promise<Tensor>;
  /** A part of a tensor, by the rules of `Tensor.slice`. */
  getSlice(name: string, ...index: SliceIndices): Tensor | Promise<Tensor>;
}

/** What reading takes of a handle. */
export type ReadableSource = Pick<
  QuantizedSource,
  'path' | 'tensors' | 'readTensors' | 'getTensor' | 'getSlice'
>;

/** Options of calls that may wait. */
interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Members of the library's own handles. */
interface OwnSource extends Omit<QuantizedSource, 'getTensor' | 'getSlice'> {
  readonly storage?: unknown;
  sibling?(name: string, options: CallOptions): Promise<SiblingFile | undefined>;
  metadataOfFiles?(signal?: AbortSignal): Promise<readonly (ReadonlyMap<string, string> | null)[]>;
  getTensor(name: string, options?: CallOptions): Tensor | Promise<Tensor>;
  getSlice(name: string, ...index: unknown[]): Tensor | Promise<Tensor>;
}

/** Reads stored tensors, local or remote. */
export class StoredTensors implements TensorReader {
  readonly #source: OwnSource;
  /** Whether tensors have to be fetched, so that only asynchronous reading works. */
  readonly isRemote: boolean;

  /** Throws a TypeError for anything but an open handle. */
  constructor(source: ReadableSource) {
    if (typeof source !== 'object' || source === null) {
      throw argumentTypeError('source', 'an open file or checkpoint', source);
    }
    for (const name of ['tensors', 'readTensors', 'getTensor', 'getSlice'] as const) {
      requireFunction(`source.${name}`, source[name]);
    }
    this.#source = source as OwnSource;
    this.isRemote = !('storage' in source);
  }

  /** The file or index, for errors. */
  get path(): string | undefined {
    return this.#source.path;
  }

  /** The name under which a writer kept the tensor, when it recorded in the metadata that both are the same. */
  keptName(name: string): string | undefined {
    return this.#source.metadata?.get(name);
  }

  /** A small file next to the weights; undefined when there is none. */
  async sibling(name: string, options: CallOptions): Promise<SiblingFile | undefined> {
    return await this.#source.sibling?.(name, options);
  }

  /** The metadata of the source, and of each of its files. */
  async metadataOfFiles(signal: AbortSignal | undefined): Promise<ReadonlyMap<string, string>[]> {
    const found = (await this.#source.metadataOfFiles?.(signal)) ?? [];
    return [this.#source.metadata, ...found].filter((metadata) => metadata != null);
  }

  /** The tensor of a local source: its own object. */
  tensor(name: string): Tensor {
    return this.#source.getTensor(name) as Tensor;
  }

  /**
   * Work that reads these tensors, with errors that name the file. When it ends, a local source is checked by one of
   * its tensors: views of a truncated file read as zeros.
   */
  *verified<Result>(name: string, work: Work<Result>): Work<Result> {
    try {
      const result = yield* work;
      if (!this.isRemote) this.tensor(name);
      return result;
    } catch (error) {
      throw inFile(error, this.path);
    }
  }

  *read(parts: readonly TensorPart[]): Work<readonly Tensor[]> {
    yield;
    if (!this.isRemote) return parts.map((part) => this.#part(part));
    return yield* call({
      async: (signal) => Promise.all(parts.map((part) => this.#fetch(part, signal))),
    });
  }

  #part({ name, index }: TensorPart): Tensor {
    const tensor = this.tensor(name);
    return index === null ? tensor : tensor.slice(...index);
  }

  async #fetch({ name, index }: TensorPart, signal: AbortSignal | undefined): Promise<Tensor> {
    const options = signal === undefined ? {} : { signal };
    if (index === null) return await this.#source.getTensor(name, options);
    return await this.#source.getSlice(name, ...index, options);
  }
}
