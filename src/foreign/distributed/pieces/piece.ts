/** Pieces of tensors in the checkpoint that has them. */

import type { TensorEntry } from '../../../file/source/tensor-info.js';
import type { Dtype } from '../../../header/dtype.js';
import type { Box } from './tiling.js';

/** A piece: a tensor of the base, and its place in the whole tensor. */
export interface Piece extends Box {
  /** Its entry in the base. */
  readonly entry: TensorEntry;
  /** Names in the base of pieces with the same place, which have to be compared when this one is fetched. */
  readonly copies: readonly string[];
}

/** A tensor and the pieces that tile it. */
export interface AssembledTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly pieces: readonly Piece[];
}
