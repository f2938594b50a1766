/** The interface that all open handles share, whatever the format and wherever the files are. */

import type { OptionNames } from '../../errors/arguments.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import type { TensorEntry } from './tensor-info.js';

/** Options of {@link TensorSource.tensors}. */
export interface ListingOptions {
  /** Ends the listing, which rejects with `signal.reason`. Files opened for it stay open. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const LISTING_OPTIONS: OptionNames<ListingOptions> = { signal: true };

/**
 * Named tensors: the interface of `SafetensorsFile`, `Checkpoint` and `RemoteCheckpoint`, for functions that take
 * tensors from anywhere. Properties and synchronous methods never wait; methods that may wait return promises.
 *
 * @example
 * ```ts
 * async function largest(source: TensorSource): Promise<Tensor | undefined> {
 *   const entries = await source.tensors();
 *   const [first] = entries.toSorted((a, b) => b.byteLength - a.byteLength);
 *   if (first === undefined) return undefined;
 *   return (await source.readTensors([first.name])).get(first.name);
 * }
 *
 * console.log((await largest(safeOpen('model.safetensors')))?.name); // → embed.weight
 * console.log((await largest(safeOpen('my-model')))?.name); // → embed.weight
 * ```
 */
export interface TensorSource {
  /** Path or address of the file or the index, as text; undefined for parsed bytes. */
  readonly path: string | undefined;
  /** False once a change of a file was noticed, and after `close()`. */
  readonly ok: boolean;
  /** Number of tensors. */
  readonly size: number;
  /** Metadata of the index or of the only file; null without metadata. Don't modify it. */
  readonly metadata: ReadonlyMap<string, string> | null;

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[];

  /** Whether a tensor, or an alias of one, has that name. */
  has(name: string): boolean;

  /**
   * Lists the facts of all tensors, file by file, in the order of their bytes; a new array of frozen objects.
   * Opens all files, or fetches their headers, without stalling the event loop.
   *
   * @throws FileClosedError; FormatError when a file is bad, and `SAFETENSORS_INDEX_MISMATCH` when the index names a
   *   missing tensor; `signal.reason`
   */
  tensors(options?: ListingOptions): Promise<TensorEntry[]>;

  /**
   * Reads the named tensors, all by default, into memory of the caller's own, without stalling the event loop. In the
   * order given; without names in the order of `tensors()`.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError; `SAFETENSORS_TENSOR_TOO_LARGE` before anything
   *   is read; `SAFETENSORS_OUT_OF_MEMORY`; `signal.reason`
   */
  readTensors(names?: Iterable<string>, options?: TransferOptions): Promise<Map<string, Tensor>>;

  /** Closes the handle; closing twice is harmless. Tensors that were exposed stay valid. */
  close(): void;
}
