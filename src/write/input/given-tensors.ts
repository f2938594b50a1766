/** The tensors of a call that is asynchronous: read in its turn, checked in steps that yield to the event loop. */

import { isPlainObject } from '../../errors/brand-checks.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import type { Dtype } from '../../header/dtype.js';
import { TensorOf } from '../../tensor/tensor.js';
import type { Work } from '../../work/work.js';
import { ITEMS_PER_YIELD } from '../../work/yielding.js';
import {
  type InferredInput,
  isData,
  type NewTensorOf,
  newEntry,
  type Payload,
  payloadOf,
  storedEntry,
  type WriteEntry,
} from './tensor-input.js';

/** The dtype of a tensor that is retained as it is. */
const WHOLE = undefined;

/**
 * Names, dtypes, shapes and places of data, as they are now: the caller may change them after the call. They are
 * retained in columns, since creating objects for many small tensors would block the event loop.
 */
export class GivenTensors {
  readonly #names: string[] = [];
  readonly #dtypes: (Dtype | typeof WHOLE)[] = [];
  /** The data, or the whole tensor. */
  readonly #data: unknown[] = [];
  /** The dimensions of all shapes, and where each shape ends. */
  readonly #dimensions: number[] = [];
  readonly #shapeEnds: number[] = [];
  /** Tensors of files and of parsed bytes, by their numbers: checked. */
  readonly #stored = new Map<number, WriteEntry>();
  readonly #failure: { readonly error: unknown } | undefined;

  constructor(tensors: NamedValues<InferredInput>) {
    try {
      for (const [name, tensor] of pairsOf(tensors, 'tensors')) this.#add(name, tensor);
    } catch (error) {
      // Faults of the tensors before it come first.
      this.#failure = { error };
    }
  }

  /** The tensors of files and of parsed bytes. */
  get stored(): Iterable<WriteEntry> {
    return this.#stored.values();
  }

  /** Checks the tensors. Throws as `readTensorsAndStreams`. */
  *entries(): Work<WriteEntry<Payload>[]> {
    const entries: WriteEntry<Payload>[] = [];
    for (const [i, name] of this.#names.entries()) {
      if (i % ITEMS_PER_YIELD === 0) yield;
      entries.push(this.#stored.get(i) ?? newEntry(name, this.#newTensor(i), payloadOf));
    }
    if (this.#failure !== undefined) throw this.#failure.error;
    return entries;
  }

  #add(name: string, tensor: InferredInput): void {
    if (tensor instanceof TensorOf) {
      this.#stored.set(this.#names.length, storedEntry(name, tensor));
      this.#push(name, WHOLE, tensor);
    } else if (isNewTensor(tensor) && this.#addShape(tensor)) {
      this.#push(name, tensor.dtype, tensor.data);
    } else {
      this.#push(name, WHOLE, tensor);
    }
  }

  #push(name: string, dtype: Dtype | typeof WHOLE, data: unknown): void {
    this.#names.push(name);
    this.#dtypes.push(dtype);
    this.#data.push(data);
    this.#shapeEnds.push(this.#dimensions.length);
  }

  /** Adds the shape of a new tensor. Returns false for a faulty one, which the caller need not change. */
  #addShape({ shape }: { readonly shape: unknown }): boolean {
    if (!Array.isArray(shape)) return false;
    // The array may be four billion holes.
    for (let i = 0; i < shape.length; i++) {
      const dimension: unknown = shape[i];
      if (typeof dimension !== 'number') return false;
      this.#dimensions.push(dimension);
    }
    return true;
  }

  #newTensor(number: number): NewTensorOf<Dtype, unknown> {
    const dtype = this.#dtypes[number];
    const data = this.#data[number];
    if (dtype === WHOLE) return data as NewTensorOf<Dtype, unknown>;
    const shapeStart = this.#shapeEnds[number - 1] ?? 0;
    return { dtype, shape: this.#dimensions.slice(shapeStart, this.#shapeEnds[number]), data };
  }
}

/** Whether a value declares a dtype, and is not bare data. */
function isNewTensor(value: InferredInput): boolean {
  // Looking for data takes most of the time.
  return typeof value?.dtype === 'string' && (isPlainObject(value) || !isData(value));
}
