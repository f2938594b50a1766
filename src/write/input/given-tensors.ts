/** The tensors of a call that is asynchronous: read in its turn, checked in steps that yield to the event loop. */

import { isPlainObject } from '../../errors/brand-checks.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import type { Dtype } from '../../header/dtype.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
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

/** A tensor of a file or of parsed bytes, and the result of checking it. */
interface StoredTensor {
  readonly tensor: Tensor;
  readonly entry: WriteEntry;
}

/** The dtype of a tensor that is retained as it is. */
const WHOLE = undefined;

/** What is retained of a tensor, before its shape. */
type Fields = [name: string, dtype: Dtype | typeof WHOLE, data: unknown, rank: number];
const FIELDS = 4;

/**
 * Names, dtypes, shapes and places of data, as they are now: the caller may change them after the call. They are
 * retained in one list, since creating objects for many small tensors, or growing several lists, would block the event
 * loop.
 */
export class GivenTensors {
  /** Of each tensor its name, its dtype, its data or the whole tensor, the length of its shape, and this. */
  readonly #values: unknown[] = [];
  /** Tensors of files and of parsed bytes, by their numbers: checked. */
  readonly #stored = new Map<number, StoredTensor>();
  readonly #failure: { readonly error: unknown } | undefined;
  #size = 0;

  constructor(tensors: NamedValues<InferredInput>) {
    try {
      for (const [name, tensor] of pairsOf(tensors, 'tensors')) this.#add(name, tensor);
    } catch (error) {
      // Faults of the tensors before it come first.
      this.#failure = { error };
    }
  }

  /** Number of tensors before the first fault of the argument, if any. */
  get size(): number {
    return this.#size;
  }

  /** The tensors of files and of parsed bytes. */
  get stored(): Iterable<WriteEntry> {
    return Array.from(this.#stored.values(), ({ entry }) => entry);
  }

  /** Returns a tensor of a file or of parsed bytes by its number; undefined for a new one. */
  storedTensor(number: number): Tensor | undefined {
    return this.#stored.get(number)?.tensor;
  }

  /** Checks the tensors. Throws as `readTensorsAndStreams`. */
  *entries(): Work<WriteEntry<Payload>[]> {
    const entries: WriteEntry<Payload>[] = [];
    const values = this.#values;
    for (let i = 0, at = 0; i < this.#size; i++) {
      if (i % ITEMS_PER_YIELD === 0) yield;
      const [name, dtype, data, rank] = values.slice(at, at + FIELDS) as Fields;
      const shape = values.slice(at + FIELDS, at + FIELDS + rank) as number[];
      at += FIELDS + rank;
      const tensor = (dtype === WHOLE ? data : { dtype, shape, data }) as NewTensorOf<
        Dtype,
        unknown
      >;
      entries.push(this.#stored.get(i)?.entry ?? newEntry(name, tensor, payloadOf));
    }
    if (this.#failure !== undefined) throw this.#failure.error;
    return entries;
  }

  #add(name: string, tensor: InferredInput): void {
    if (tensor instanceof TensorOf) {
      this.#stored.set(this.#size, { tensor, entry: storedEntry(name, tensor) });
      this.#values.push(name, WHOLE, tensor, 0);
    } else if (!isNewTensor(tensor) || !this.#addNew(name, tensor)) {
      this.#values.push(name, WHOLE, tensor, 0);
    }
    this.#size++;
  }

  /** Adds a new tensor. Returns false for a faulty shape, which the caller need not change. */
  #addNew(
    name: string,
    { dtype, shape, data }: InferredInput | NewTensorOf<Dtype, unknown>,
  ): boolean {
    if (!Array.isArray(shape)) return false;
    const values = this.#values;
    const begin = values.length;
    values.push(name, dtype, data, shape.length);
    // The array may be four billion holes.
    for (let i = 0; i < shape.length; i++) {
      const dimension: unknown = shape[i];
      if (typeof dimension !== 'number') {
        values.length = begin;
        return false;
      }
      values.push(dimension);
    }
    return true;
  }
}

/** Whether a value declares a dtype, and is not bare data. */
function isNewTensor(value: InferredInput): boolean {
  // Looking for data takes most of the time.
  return typeof value?.dtype === 'string' && (isPlainObject(value) || !isData(value));
}
