/** How a quantized weight is stored, as data. */

import type { Quantization } from '../file/source/tensor-info.js';
import { tensorByteLength } from '../header/tensor-spec.js';
import type { CheckpointTensors } from './plan/checkpoint-tensors.js';
import type { LogicalPlan } from './plan/logical-plan.js';

/** Names of the stored tensors of a weight, the codes first. */
export function storedNamesOf({ storedAs }: LogicalPlan): string[] {
  const { weight, ...others } = storedAs;
  return [...new Set([weight as string, ...Object.values(others)])];
}

/** Returns how a weight is stored; a new frozen object. */
export function quantizationOf(plan: LogicalPlan, tensors: CheckpointTensors): Quantization {
  const { scheme, bits, block, storedAs } = plan;
  const stored = storedNamesOf(plan).flatMap((name) => tensors.find(name) ?? []);
  return Object.freeze({
    scheme,
    bits,
    block: block === null ? null : Object.freeze([...block]),
    storedAs: Object.freeze({ ...storedAs }),
    byteLength: stored.reduce((sum, one) => sum + tensorByteLength(one), 0),
  });
}
