/** Computes logical tensors from stored ones that are at hand. */

import { matrixOf } from '../header/tensor-spec.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { cut } from '../work/byte-ranges.js';
import type { Work } from '../work/work.js';
import { type LogicalReader, LogicalTensor } from './logical-tensor.js';
import type { LogicalPlan } from './plan/logical-plan.js';
import { inFile } from './plan/refusals.js';
import type { TensorPart } from './tiles/reading.js';

const WIDTH = Float32Array.BYTES_PER_ELEMENT;

/** Values that are computed at once where they cannot be written to their place: rows of about 1 MiB. */
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
  const source = codes.computed(plan.name, tensor.elementCount * WIDTH, (target, position) =>
    fillBytes(tensor, target, position),
  );
  return TensorOf.of(plan.name, 'F32', [...plan.shape], source);
}

/** Fills bytes of the values from any position on: whole rows in place where they are aligned. */
function fillBytes(tensor: LogicalTensor, target: Uint8Array, position: number): void {
  if (target.length === 0) return;
  const { rows, columns } = matrixOf(tensor.shape);
  const rowByteLength = columns * WIDTH;
  const end = position + target.length;
  const first = Math.floor(position / rowByteLength);
  const last = Math.min(Math.ceil(end / rowByteLength), rows);
  const windowRows = Math.max(1, Math.floor(WINDOW_LENGTH / columns));
  for (const window of cut(first, last, windowRows)) {
    const [begin, length] = [window.begin * rowByteLength, window.end - window.begin];
    const at = target.byteOffset + begin - position;
    if (begin >= position && begin + length * rowByteLength <= end && at % WIDTH === 0) {
      tensor.fillNow(window.begin, new Float32Array(target.buffer, at, length * columns));
      continue;
    }
    const values = new Float32Array(length * columns);
    tensor.fillNow(window.begin, values);
    const bytes = new Uint8Array(values.buffer);
    const [from, to] = [Math.max(begin, position), Math.min(begin + bytes.length, end)];
    target.set(bytes.subarray(from - begin, to - begin), from - position);
  }
}
