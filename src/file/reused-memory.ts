/**
 * Memory that a stream fills again and again with tensors of files that are not in the page cache. Tensors that are
 * there, or in use, are faster to take from the mapping.
 */

import {
  BLOCK_BYTE_LENGTH,
  blocksLength,
  DIRECT_READ_BYTE_LENGTH,
  DirectFile,
  directMemory,
} from '../platform/io/direct-io.js';
import { type LeasableStorage, verifyOpen } from '../tensor/storage/storage.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { type ByteRange, cut, type FileRange } from '../work/byte-ranges.js';
import { limit, Slots } from '../work/slots.js';
import type { Arrival } from './source/stream.js';

/**
 * Lengths of memory are multiples of it, so that tensors of one size fit into the memory of each other, wherever in a
 * block they begin. What is never filled takes no memory.
 */
const MEMORY_UNIT = 8 * 2 ** 20;

/** Longer tensors would take too much memory; few models have them. */
const MAX_BYTE_LENGTH = 2 ** 28;

/**
 * Slots shared by all files of the thread. More than the pool has threads: these go on while the loop uses a tensor.
 * Measured with 4 to 24.
 */
const slots = new Slots(12);

/** A file that is being read, as long as tensors of it are on their way, or may follow. */
class OpenFile {
  readonly storage: LeasableStorage;
  readonly passing: Promise<DirectFile>;
  readonly #release: () => void;
  #users = 1;

  constructor(storage: LeasableStorage) {
    const { fd, release } = storage.acquireDescriptor();
    const { path, byteLength } = storage;
    this.storage = storage;
    this.#release = release;
    this.passing = DirectFile.open({ fd, path, byteLength });
  }

  addUser(): this {
    this.#users++;
    return this;
  }

  removeUser(): void {
    this.#users--;
    if (this.#users > 0) return;
    void this.passing.then((passing) => {
      passing.close();
      this.#release();
    });
  }
}

/** Memory of one stream. */
export class ReusedMemory {
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  #file: OpenFile | undefined;

  /**
   * Reads the range, in which all bytes of the tensors lie; resolves with undefined for tensors that are better taken
   * from their files.
   */
  async fetch(
    tensors: ReadonlyMap<string, Tensor>,
    { position, byteLength }: FileRange,
    signal: AbortSignal,
  ): Promise<Arrival | undefined> {
    const storage = storageOf(tensors);
    if (storage === undefined || byteLength === 0 || byteLength > MAX_BYTE_LENGTH) return undefined;
    const end = position + byteLength;
    const resident = storage.residentBytes(position, end);
    const isMapped = storage.zeroCopy;
    if (isMapped && (resident ?? byteLength) >= byteLength / 2) return undefined;
    const begin = position - (position % BLOCK_BYTE_LENGTH);
    const memory = this.#take(blocksLength(end - begin), storage.path);
    const file = this.#open(storage);
    try {
      const passing = await file.passing;
      const pieces = cut(begin, end, DIRECT_READ_BYTE_LENGTH);
      const read = async (piece: ByteRange): Promise<void> => {
        const into = memory.subarray(piece.begin - begin, blocksLength(piece.end - begin));
        await passing.read(into, piece.begin);
      };
      await limit(pieces, slots, read, signal);
      verifyOpen(storage);
    } catch (error) {
      this.#free.push(memory);
      throw error;
    } finally {
      file.removeUser();
    }
    const tensorOf = (name: string): Tensor => {
      const tensor = tensors.get(name) as Tensor;
      const range = TensorOf.sourceOf(tensor);
      const at = range.position - begin;
      const bytes = memory.subarray(at, at + range.byteLength);
      return TensorOf.ofBytes(tensor.name, tensor.dtype, tensor.shape, bytes, storage);
    };
    return { tensorOf, release: () => void this.#free.push(memory) };
  }

  /** Call it when nothing is being fetched. */
  end(): void {
    this.#file?.removeUser();
    this.#file = undefined;
  }

  /** The smallest free memory that is long enough; else new memory, in place of what was too short. */
  #take(byteLength: number, path: string | undefined): Uint8Array<ArrayBuffer> {
    const found = this.#free.findLastIndex(({ length }) => length >= byteLength);
    const [memory] = found < 0 ? [] : this.#free.splice(found, 1);
    if (memory !== undefined) return memory;
    this.#free.shift();
    const units = Math.ceil((byteLength + BLOCK_BYTE_LENGTH) / MEMORY_UNIT);
    return directMemory(units * MEMORY_UNIT, path);
  }

  #open(storage: LeasableStorage): OpenFile {
    if (this.#file?.storage !== storage) {
      this.end();
      this.#file = new OpenFile(storage);
    }
    return this.#file.addUser();
  }
}

/** The file of the tensors, if it still has exactly their bytes. */
function storageOf(tensors: ReadonlyMap<string, Tensor>): LeasableStorage | undefined {
  const [first, ...others] = Array.from(
    tensors.values(),
    (tensor) => TensorOf.sourceOf(tensor).untouchedFile,
  );
  return others.every((other) => other === first) ? first : undefined;
}
