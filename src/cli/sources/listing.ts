/** The tensors and files of a source of any format, for `inspect`. */

import { elementCountOf } from '../../header/tensor-spec.js';

/** A tensor, without its bytes. */
export interface ListedTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** Position in its file of the first byte that holds it, or that it is converted from. */
  readonly offset: number;
  /** Name of its file. */
  readonly file: string;
}

/** Counts of some tensors. */
export interface ListedCounts {
  readonly tensors: number;
  readonly parameters: number;
  readonly byteLength: number;
}

/** A file of the source. */
export interface ListedFile {
  readonly name: string;
  /** Length of the whole file. */
  readonly byteLength: number;
  readonly tensors: number;
  readonly parameters: number;
}

/** A tensor of the source that safetensors cannot hold. */
export interface UnsupportedTensor {
  readonly name: string;
  readonly reason: string;
}

/** Everything that `inspect` shows. */
export interface Listing {
  readonly format: 'safetensors' | 'torch' | 'numpy';
  /** The opened file or index. */
  readonly path: string;
  readonly files: readonly ListedFile[];
  /** Shard by shard, in the order of their bytes. */
  readonly tensors: readonly ListedTensor[];
  readonly parameters: number;
  /** Number of parameters by the metadata; null when the metadata don't tell it. */
  readonly totalParameters: number | null;
  /** The method of quantization used for counting packed values; null without quantization. */
  readonly quantization: string | null;
  readonly dtypes: ReadonlyMap<string, ListedCounts>;
  readonly metadata: ReadonlyMap<string, string> | null;
  /** Tensors that `tensors` lacks, because safetensors cannot hold them. */
  readonly unsupported: readonly UnsupportedTensor[];
  /** Names of files beside it that another tool might open instead. */
  readonly ignoredFiles: readonly string[];
}

/** Counts by dtype of plainly stored tensors: every element is a parameter. */
export function countByDtype(tensors: readonly ListedTensor[]): Map<string, ListedCounts> {
  const counts = new Map<string, ListedCounts>();
  for (const { dtype, shape, byteLength } of tensors) {
    const before = counts.get(dtype) ?? { tensors: 0, parameters: 0, byteLength: 0 };
    counts.set(dtype, {
      tensors: before.tensors + 1,
      parameters: before.parameters + elementCountOf(shape),
      byteLength: before.byteLength + byteLength,
    });
  }
  return counts;
}
