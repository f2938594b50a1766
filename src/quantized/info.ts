/** The facts of a logical tensor. */

import { DTYPES } from '../header/dtype.js';
import { tensorByteLength } from '../header/tensor-spec.js';
import type { CheckpointTensors } from './plan/checkpoint-tensors.js';
import type { LogicalPlan, StoredTensor } from './plan/logical-plan.js';
import { isQuantized } from './plan/plan.js';

/** How a logical tensor is stored. */
export interface LogicalInfo {
  /** The logical dimensions, outermost first. */
  readonly shape: readonly number[];
  /**
   * The scheme: `fp8`, `mxfp8`, `int8`, `pack-quantized`, `nvfp4`, `mxfp4`, `bitsandbytes-nf4`, `bitsandbytes-fp4`,
   * `bitsandbytes-int8`, `gptq`, `awq`, `mlx-affine`, `mlx-mxfp4`, `mlx-nvfp4` or `mlx-mxfp8`. Null when it is not
   * quantized.
   */
  readonly scheme: string | null;
  /** Bits of a code, or of an element that is not quantized. */
  readonly bits: number;
  /**
   * Rows and columns that share a scale; a single number where blocks run over rows. Null with one scale in all, and
   * when it is not quantized.
   */
  readonly block: readonly number[] | null;
  /** Names of the stored tensors by what they are: `weight`, `scale`, `zeroPoint` … */
  readonly storedAs: Readonly<Record<string, string>>;
  /** Length of these tensors in bytes. */
  readonly byteLength: number;
}

/** Returns the facts; a new frozen object. */
export function infoOf(
  tensor: LogicalPlan | StoredTensor,
  tensors: CheckpointTensors,
): LogicalInfo {
  const shape = Object.freeze([...tensor.shape]);
  if (!isQuantized(tensor)) {
    const { name, dtype } = tensor;
    return Object.freeze({
      shape,
      scheme: null,
      bits: DTYPES[dtype].bits,
      block: null,
      storedAs: Object.freeze({ weight: name }),
      byteLength: tensorByteLength(tensor),
    });
  }
  const { scheme, bits, block, storedAs } = tensor;
  const stored = Object.values(storedAs).flatMap((name) => tensors.find(name) ?? []);
  return Object.freeze({
    shape,
    scheme,
    bits,
    block: block === null ? null : Object.freeze([...block]),
    storedAs: Object.freeze({ ...storedAs }),
    byteLength: stored.reduce((sum, one) => sum + tensorByteLength(one), 0),
  });
}
