/** Where stored tensors come from: an open file or checkpoint, which answers at once, or a remote one. */

import { argumentTypeError, requireFunction } from '../errors/arguments.js';
import type { FileBeside } from '../file/source/facts.js';
import type { TensorSource } from '../file/source/tensor-source.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { yieldIfDue } from '../work/yielding.js';
import { inFile } from './plan/refusals.js';
import type { Reading, Want } from './tiles/reading.js';

/** An open handle that `dequantized` takes: a SafetensorsFile, a Checkpoint or a RemoteCheckpoint. */
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

/** Members of the library's own handles that are not public. */
interface OwnSource extends Omit<QuantizedSource, 'getTensor' | 'getSlice'> {
  readonly storage?: unknown;
  readBeside?(name: string, signal?: AbortSignal): Promise<FileBeside | undefined>;
  metadataOfFiles?(signal?: AbortSignal): Promise<readonly (ReadonlyMap<string, string> | null)[]>;
  getTensor(name: string, options?: { readonly signal?: AbortSignal }): Tensor | Promise<Tensor>;
  getSlice(name: string, ...index: unknown[]): Tensor | Promise<Tensor>;
}

/** Reads stored tensors for generators that ask for them. */
export class StoredTensors {
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

  /** A small file beside the weights; undefined when there is none. */
  async readBeside(name: string, signal: AbortSignal | undefined): Promise<FileBeside | undefined> {
    return await this.#source.readBeside?.(name, signal);
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

  /** Runs work on this thread, of a local source. */
  runNow<Result>(work: Reading<Result>, name: string): Result {
    if (this.isRemote) {
      throw Object.assign(
        new TypeError('a remote tensor has to be fetched: use the asynchronous method'),
        { code: 'ERR_INVALID_STATE' },
      );
    }
    try {
      let step = work.next([]);
      while (!step.done) step = work.next(step.value.map((want) => this.#part(want)));
      this.#verify(name);
      return step.value;
    } catch (error) {
      throw inFile(error, this.path);
    }
  }

  /** Runs work between other events; `signal` ends it between two steps. */
  async run<Result>(
    work: Reading<Result>,
    name: string,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    try {
      return await this.#run(work, name, signal);
    } catch (error) {
      throw inFile(error, this.path);
    }
  }

  async #run<Result>(
    work: Reading<Result>,
    name: string,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    signal?.throwIfAborted();
    let step = work.next([]);
    while (!step.done) {
      const wants = step.value;
      await yieldIfDue();
      signal?.throwIfAborted();
      const found = this.isRemote
        ? await Promise.all(wants.map((want) => this.#fetch(want, signal)))
        : wants.map((want) => this.#part(want));
      step = work.next(found);
    }
    if (!this.isRemote) this.#verify(name);
    return step.value;
  }

  #part({ name, index }: Want): Tensor {
    const tensor = this.tensor(name);
    return index === null ? tensor : tensor.slice(...index);
  }

  async #fetch({ name, index }: Want, signal: AbortSignal | undefined): Promise<Tensor> {
    const options = signal === undefined ? {} : { signal };
    if (index === null) return await this.#source.getTensor(name, options);
    return await this.#source.getSlice(name, ...index, options);
  }

  /** Views of a file that was cut short read as zeros: throws when the file has changed meanwhile. */
  #verify(name: string): void {
    this.tensor(name);
  }
}
