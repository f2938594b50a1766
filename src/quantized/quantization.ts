/** How a quantized weight is stored, as data. */

import type { Quantization } from '../file/source/tensor-info.js';
import { tensorByteLength } from '../header/tensor-spec.js';
import type { CheckpointTensors } from './plan/checkpoint-tensors.js';
import type { LogicalPlan } from './plan/logical-plan.js';

/** Names of the stored tensors of a weight, each once, the codes first. */
export function storedNamesOf({ storedAs }: LogicalPlan): string[] {
  const names = [storedAs['weight'] as string];
  for (const name of Object.values(storedAs)) if (!names.includes(name)) names.push(name);
  return names;
}

/** The same array if it is frozen, else a frozen copy: there may be fifty thousand weights. */
export function frozen(numbers: readonly number[]): readonly number[] {
  return Object.isFrozen(numbers) ? numbers : Object.freeze([...numbers]);
}

/**
 * Returns how a weight is stored; a new frozen object.
 *
 * @param names those of its stored tensors, as {@link storedNamesOf} returns them
 */
export function quantizationOf(
  { scheme, bits, block, storedAs }: LogicalPlan,
  names: readonly string[],
  tensors: CheckpointTensors,
): Quantization {
  let byteLength = 0;
  for (const name of names) {
    const stored = tensors.find(name);
    if (stored !== undefined) byteLength += tensorByteLength(stored);
  }
  return Object.freeze({
    scheme,
    bits,
    block: block && frozen(block),
    storedAs: Object.isFrozen(storedAs) ? storedAs : Object.freeze({ ...storedAs }),
    byteLength,
  });
}
