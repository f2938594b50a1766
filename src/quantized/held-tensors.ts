/** Computes logical tensors from stored ones that are at hand. */

import { fillUnits } from '../tensor/fill-units.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import type { Work } from '../work/work.js';
import { type LogicalReader, LogicalTensor } from './logical-tensor.js';
import type { LogicalPlan } from './plan/logical-plan.js';
import { inFile } from './plan/unsupported.js';
import type { TensorPart } from './tiles/reading.js';

const WIDTH = Float32Array.BYTES_PER_ELEMENT;

/** Values that are computed at once: rows of about 1 MiB. */
const WINDOW_LENGTH = 2 ** 18;

/** Open tensors, which keep their files open as long as the logical tensor that refers to them is in use. */
class HeldTensors implements LogicalReader {
  readonly #tensors: ReadonlyMap<string, Tensor>;
  readonly path: string | undefined;

  constructor(tensors: ReadonlyMap<string, Tensor>, path: string | undefined) {
    this.#tensors = tensors;
    this.path = path;
  }

  *read(parts: readonly TensorPart[]): Work<readonly Tensor[]> {
    yield;
    return parts.map(({ name, index }) => {
      const tensor = this.#find(name);
      return index === null ? tensor : tensor.slice(...index);
    });
  }

  /** Views of a truncated file read as zeros: every file is checked when the work ends. */
  *verified<Result>(names: Iterable<string>, work: Work<Result>): Work<Result> {
    try {
      const result = yield* work;
      for (const name of names) TensorOf.sourceOf(this.#find(name)).verify();
      return result;
    } catch (error) {
      throw inFile(error, this.path);
    }
  }

  #find(name: string): Tensor {
    return this.#tensors.get(name) as Tensor;
  }
}

/**
 * Returns a quantized weight as a tensor of F32 whose values are computed on use.
 *
 * @param stored the open tensors by which it is stored
 */
export function computedWeight(plan: LogicalPlan, stored: ReadonlyMap<string, Tensor>): Tensor {
  const codes = TensorOf.sourceOf(stored.get(plan.storedAs['weight'] as string) as Tensor);
  const reader = new HeldTensors(stored, codes.path);
  const tensor = new LogicalTensor(plan, [...stored.keys()], reader);
  const { columns } = tensor;
  const rows = {
    byteLength: columns * WIDTH,
    atOnce: Math.max(1, Math.floor(WINDOW_LENGTH / columns)),
  };
  const source = codes.computed(plan.name, tensor.elementCount * WIDTH, (target, position) =>
    fillUnits(target, position, rows, (first, count, { buffer, byteOffset }) =>
      tensor.fillNow(first, new Float32Array(buffer, byteOffset, count * columns)),
    ),
  );
  return TensorOf.of(plan.name, 'F32', [...plan.shape], source);
}
