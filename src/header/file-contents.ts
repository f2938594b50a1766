/** The names, dtypes, shapes and offsets of a file's tensors. */

import type { Dtype } from './dtype.js';

/**
 * Lists the tensors of a file: a `Header`, or its counterpart in other formats. Tensors are entries, numbered 0 to
 * `size` - 1 in the order of their bytes in the file.
 */
export interface FileContents {
  /** Number of tensors. */
  readonly size: number;
  /** Null if absent. */
  readonly metadata: ReadonlyMap<string, string> | null;
  /** The text that says it, as far as work on the names grows with it. */
  readonly json: { readonly length: number };

  /** Entry of a tensor's name; -1 if absent. */
  find(name: string): number;

  /** Name of an entry. */
  name(entry: number): string;

  /** All names in the order of the file; a new array. */
  names(): string[];

  /** All names sorted by their UTF-8 bytes; a new array. */
  sortedNames(): string[];

  /** Dtype of an entry. */
  dtype(entry: number): Dtype;

  /** Dimensions of an entry, outermost first; frozen. */
  shape(entry: number): readonly number[];

  /** Offset of the first byte that holds an entry, or that the entry is converted from. */
  begin(entry: number): number;

  /** Offset after the last of these bytes. */
  end(entry: number): number;
}
