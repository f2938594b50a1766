/** Where stored tensors come from: an open checkpoint, or a source of a writer. */

import { argumentTypeError, requireFunction } from '../errors/arguments.js';
import type { SiblingFile } from '../file/source/tensor-info.js';
import type { TensorSource } from '../file/source/tensor-source.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { call, type Work } from '../work/work.js';
import type { LogicalReader } from './logical-tensor.js';
import { inFile } from './plan/unsupported.js';
import type { TensorPart } from './tiles/reading.js';

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
  sibling?(name: string, options: CallOptions): Promise<SiblingFile | undefined>;
  metadataOfFiles?(signal?: AbortSignal): Promise<readonly (ReadonlyMap<string, string> | null)[]>;
  getTensor(name: string, options?: CallOptions): Tensor | Promise<Tensor>;
  getSlice(name: string, ...index: unknown[]): Tensor | Promise<Tensor>;
}

/** Reads stored tensors between other events. */
export class StoredTensors implements LogicalReader {
  readonly #source: OwnSource;

  /** Throws a TypeError for anything but an open handle. */
  constructor(source: ReadableSource) {
    if (typeof source !== 'object' || source === null) {
      throw argumentTypeError('source', 'an open file or checkpoint', source);
    }
    for (const name of ['tensors', 'readTensors', 'getTensor', 'getSlice'] as const) {
      requireFunction(`source.${name}`, source[name]);
    }
    this.#source = source as OwnSource;
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

  /** Errors name the file. What is fetched is of one version of every file. */
  *verified<Result>(_names: Iterable<string>, work: Work<Result>): Work<Result> {
    try {
      return yield* work;
    } catch (error) {
      throw inFile(error, this.path);
    }
  }

  *read(parts: readonly TensorPart[]): Work<readonly Tensor[]> {
    return yield* call({
      async: (signal) => Promise.all(parts.map((part) => this.#fetch(part, signal))),
    });
  }

  async #fetch({ name, index }: TensorPart, signal: AbortSignal | undefined): Promise<Tensor> {
    const options = signal === undefined ? {} : { signal };
    if (index === null) return await this.#source.getTensor(name, options);
    return await this.#source.getSlice(name, ...index, options);
  }
}
