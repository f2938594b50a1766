/**
 * Checks the tensors that a caller gives to be written: finds every fault before anything is written, without
 * touching the bytes.
 */

import { argumentTypeError } from '../../errors/arguments.js';
import { memoryOf } from '../../errors/brand-checks.js';
import { FileClosedError, quoteName, rejectTensor } from '../../errors/errors.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import type { Dtype } from '../../header/dtype.js';
import { type NamedTensorSpec, readSpec, type TensorSpec } from '../../header/tensor-spec.js';
import { type AsyncFill, ComputedStorage } from '../../tensor/storage/computed.js';
import type { DeclaredDigest } from '../../tensor/storage/declared-digests.js';
import { isLeasable, type LeasableStorage, type Storage } from '../../tensor/storage/storage.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { isDetached, isTensorBytes, requireTensorBytes, type TensorBytes } from './tensor-bytes.js';
import { isTensorStream, readStream, type TensorStream } from './tensor-stream.js';

/** A new tensor, not from a file: its dtype says which data it has. Streams are for `saveFile` and `saveCheckpoint`. */
export interface NewTensorOf<D extends Dtype, Data = TensorBytes<D> | TensorStream>
  extends TensorSpec {
  readonly dtype: D;
  /** As many bytes as the shape needs; don't change them while they are written. */
  readonly data: Data;
}

/**
 * A new tensor of one of the dtypes, of any unless some are named, each with its own data: `NewTensor<'F32'>`.
 * Without streams it is `NewTensor<Dtype, never>`.
 */
export type NewTensor<D extends Dtype = Dtype, Stream = TensorStream> = {
  [One in D]: NewTensorOf<One, TensorBytes<One> | Stream>;
}[D];

/** A tensor to be written: one of an open file or of parsed bytes, a slice of one, or a new one. */
export type TensorInput<D extends Dtype = Dtype, Stream = TensorStream> =
  | Tensor<D>
  | NewTensor<D, Stream>;

/** The same as one type for all dtypes, from which the compiler tells the dtype. */
export type InferredInput<D extends Dtype = Dtype, Stream = TensorStream> =
  | Tensor<D>
  | NewTensorOf<D, TensorBytes<D> | Stream>;

/**
 * Tensors by name: a Map, an iterable of pairs, or a plain object. Where the compiler knows a dtype, it checks that the
 * data are an array of it. In a separate variable write `{ dtype: 'F32' as const, … }`.
 */
export type NamedTensors<
  D extends Dtype = Dtype,
  ByName extends Readonly<Record<string, Dtype>> = Readonly<Record<string, Dtype>>,
  Stream = TensorStream,
> =
  | { readonly [Name in keyof ByName]: InferredInput<ByName[Name], Stream> }
  // Iterable, too; named for the compiler's messages about the values of a Map.
  | Map<string, InferredInput<D, Stream>>
  | Iterable<readonly [name: string, tensor: InferredInput<D, Stream>]>;

/** As {@link NamedTensors}, without streams. */
export type NamedTensorsInMemory<
  D extends Dtype = Dtype,
  ByName extends Readonly<Record<string, Dtype>> = Readonly<Record<string, Dtype>>,
> = NamedTensors<D, ByName, never>;

/** Bytes in memory, within the caller's reach. */
export interface MemoryPayload {
  readonly kind: 'memory';
  /**
   * A view of the tensor's bytes [begin, end), no longer than one buffer of the runtime.
   *
   * @throws InvalidTensorError when the memory was detached or resized since
   * @throws FileChangedError, FileClosedError when the view needs the open file
   */
  window(begin: number, end: number): Uint8Array;
  /** Call it after the last read. Throws as `window` and {@link StorageRange.verify} do. */
  verify(): void;
  /** Computes the bytes on other threads, into memory of the writer, as in {@link ComputedPayload}. */
  readonly fill?: AsyncFill | undefined;
  /** The file mapped at this memory, even after its close; undefined for other memory. */
  readonly storage: LeasableStorage | undefined;
  /** The digest that the bytes must have. */
  readonly digest?: DeclaredDigest | undefined;
}

/** Bytes in a file that were never exposed, so that they cannot have been changed in memory. */
export interface FilePayload {
  readonly kind: 'file';
  readonly storage: LeasableStorage;
  /** Position of the first byte in the file. */
  readonly position: number;
  /** The digest that the bytes must have. */
  readonly digest?: DeclaredDigest | undefined;
  /** The checksum that the bytes must have. */
  readonly checksum?: DeclaredChecksum | undefined;
}

/** The CRC-32 of a tensor's bytes in an archive. */
export interface DeclaredChecksum {
  /** Fills pieces with the bytes, in order, and compares the checksum with the last one. */
  readonly fill: AsyncFill;
  /** Throws for another CRC-32 of the bytes. */
  require(crc32: number): void;
}

/** Bytes computed from those of a file, into memory of the writer. */
export interface ComputedPayload extends Pick<MemoryPayload, 'verify' | 'storage'> {
  readonly kind: 'computed';
  /**
   * Fills `target` with the bytes from `begin` on. The writer asks for the pieces in order, each once, without
   * waiting for the one before; all begin and end at whole elements.
   *
   * @throws FileChangedError, FileClosedError; errors of the computation
   */
  readonly fill: AsyncFill;
}

/** Bytes produced on demand. */
export interface StreamPayload {
  readonly kind: 'stream';
  /** Whether `open` can be called again, for the same bytes: those of a function. */
  readonly isRepeatable: boolean;
  /** As {@link readStream}. */
  open(signal?: AbortSignal): AsyncGenerator<Uint8Array, void, void>;
}

/** The source of a tensor's bytes. */
export type Payload = MemoryPayload | FilePayload | ComputedPayload | StreamPayload;

/** A tensor that has passed all checks and can be written. */
export interface WriteEntry<Bytes = MemoryPayload | FilePayload> extends NamedTensorSpec {
  readonly payload: Bytes;
}

/**
 * Checks tensors whose bytes are in memory or in a file, in the order given. The layout checks their names.
 *
 * @throws InvalidTensorError for an impossible dtype or shape, data of another length or dtype, and
 *   detached memory
 * @throws FileClosedError for a tensor of a file that was closed with `detach`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for other values than tensors, and for streams
 */
export function memoryEntries(tensors: NamedValues<InferredInput<Dtype, never>>): WriteEntry[] {
  return entriesOf(tensors, inMemory);
}

/** As {@link memoryEntries}; accepts streams, too. */
export function readTensorsAndStreams(tensors: NamedValues<InferredInput>): WriteEntry<Payload>[] {
  return entriesOf(tensors, payloadOf);
}

/**
 * Returns the source of the bytes of a tensor that was declared before.
 *
 * @throws InvalidTensorError for another dtype or shape than declared; FileClosedError as
 *   {@link memoryEntries}
 */
export function payloadOfTensor(
  { name, dtype, shape }: NamedTensorSpec,
  tensor: Tensor,
): MemoryPayload | FilePayload {
  const declared = `${dtype} of shape [${shape.join(', ')}]`;
  const found = `${tensor.dtype} of shape [${tensor.shape.join(', ')}]`;
  if (found !== declared) rejectTensor(`expected ${declared}, as declared, found ${found}`, name);
  return ofTensor(name, tensor);
}

/** Returns the payload of bytes that `fill` computes from those of a storage. */
export function computedPayload(source: Storage, fill: AsyncFill): ComputedPayload {
  const storage = leasableSourceOf(source);
  return { kind: 'computed', fill, verify: () => source.verify(), storage };
}

/** Returns the file of computed bytes, if any. */
function leasableSourceOf(storage: Storage): LeasableStorage | undefined {
  let found = storage;
  while (found instanceof ComputedStorage) found = found.source.storage;
  return isLeasable(found) ? found : undefined;
}

/**
 * Checks the data of a new tensor.
 *
 * @throws As {@link readTensorsAndStreams}
 */
export function payloadOf(facts: NamedTensorSpec, data: unknown): MemoryPayload | StreamPayload {
  if (!isTensorStream(data) || isTensorBytes(data)) return inMemory(facts, data);
  const isRepeatable = typeof data === 'function';
  return { kind: 'stream', isRepeatable, open: (signal) => readStream(facts, data, signal) };
}

function entriesOf<Bytes>(
  tensors: NamedValues<Tensor | NewTensorOf<Dtype, unknown>>,
  bytesOf: (facts: NamedTensorSpec, data: unknown) => Bytes,
): WriteEntry<Bytes | MemoryPayload | FilePayload>[] {
  const entries: WriteEntry<Bytes | MemoryPayload | FilePayload>[] = [];
  for (const [name, tensor] of pairsOf(tensors, 'tensors')) {
    if (tensor instanceof TensorOf) {
      entries.push(storedEntry(name, tensor));
    } else {
      entries.push(newEntry(name, tensor, bytesOf));
    }
  }
  return entries;
}

/** Returns the entry of a tensor of a file or of parsed bytes. Throws as {@link readTensorsAndStreams}. */
export function storedEntry(name: string, tensor: Tensor): WriteEntry {
  return entryOf(name, tensor, ofTensor(name, tensor));
}

function entryOf<Bytes>(
  name: string,
  { dtype, shape, byteLength }: Omit<NamedTensorSpec, 'name'>,
  payload: Bytes,
): WriteEntry<Bytes> {
  return { name, dtype, shape, byteLength, payload };
}

/**
 * Checks a new tensor; `bytesOf` checks its data.
 *
 * @throws As {@link readTensorsAndStreams}
 */
export function newEntry<Bytes>(
  name: string,
  tensor: NewTensorOf<Dtype, unknown>,
  bytesOf: (facts: NamedTensorSpec, data: unknown) => Bytes,
): WriteEntry<Bytes> {
  if (typeof tensor !== 'object' || tensor === null || isData(tensor)) {
    const subject = `tensor ${quoteName(name)}`;
    // Such as `tensors['name']` of a Map.
    const advice = tensor === undefined ? '; a Map gives its values by get(name)' : '';
    throw argumentTypeError(subject, 'a Tensor or { dtype, shape, data }', tensor, advice);
  }
  const facts = readSpec(name, tensor);
  return entryOf(name, facts, bytesOf(facts, tensor.data));
}

/** Whether a value is bare data, without dtype and shape. */
export function isData(value: unknown): boolean {
  return Array.isArray(value) || isTensorBytes(value);
}

function inMemory(facts: NamedTensorSpec, data: unknown): MemoryPayload {
  const { name, shape, dtype, byteLength } = facts;
  requireTensorBytes(facts, data);
  const found = memoryOf(data).byteLength;
  if (found === 0 && isDetached(data)) failDetached(name, byteLength);
  if (found !== byteLength) {
    if (found === 0) failDetached(name, byteLength);
    const expected = `expected ${byteLength} bytes for ${dtype} of shape [${shape.join(', ')}]`;
    rejectTensor(`${expected}, found ${found}`, name);
  }
  return new NewTensorBytes(name, data, byteLength);
}

/**
 * The bytes of a new tensor. Of many small tensors, a view or a closure for each would take more memory than the bytes,
 * and the collector longer than the writer.
 */
class NewTensorBytes implements MemoryPayload {
  readonly kind = 'memory';
  readonly storage = undefined;
  readonly #name: string;
  readonly #data: TensorBytes;
  readonly #byteLength: number;

  constructor(name: string, data: TensorBytes, byteLength: number) {
    this.#name = name;
    this.#data = data;
    this.#byteLength = byteLength;
  }

  window(begin: number, end: number): Uint8Array {
    const { buffer, byteOffset, byteLength } = memoryOf(this.#data);
    this.#require(byteLength);
    return new Uint8Array(buffer, byteOffset + begin, end - begin);
  }

  verify(): void {
    this.#require(memoryOf(this.#data).byteLength);
  }

  /** A length-tracking array may have grown. */
  #require(byteLength: number): void {
    if (byteLength < this.#byteLength) failDetached(this.#name, this.#byteLength);
  }
}

function ofTensor(name: string, tensor: Tensor): MemoryPayload | FilePayload {
  const source = TensorOf.sourceOf(tensor);
  const offset = TensorOf.offsetOf(tensor);
  const { byteLength } = tensor;
  if (source.isGone) throw new FileClosedError({ path: source.path, tensor: name });
  const storage = source.untouchedFile;
  const isPart = byteLength !== source.byteLength;
  const digest = isPart ? undefined : source.declaredDigest;
  if (storage !== undefined) {
    return { kind: 'file', storage, position: source.position + offset, digest };
  }
  // Otherwise it is too long for one buffer, or has to be computed: piece by piece.
  const isWhole = source.isShareable;
  const window = (begin: number, end: number): Uint8Array => {
    if (!isWhole) return source.window(offset + begin, offset + end);
    // The memory exposed to the caller, which stays when the file is closed.
    const { buffer, byteOffset } = source.resolve();
    const start = byteOffset + offset;
    if (buffer.byteLength < start + byteLength) failDetached(name, byteLength);
    return new Uint8Array(buffer, start + begin, end - begin);
  };
  // Computed values are in no buffer yet, and may take long.
  if (!source.isComputed) window(0, Math.min(byteLength, 1));
  const verify = (): void => source.verify();
  const { fillAsync } = source;
  const fill: AsyncFill | undefined =
    fillAsync && ((target, begin, signal) => fillAsync(target, offset + begin, signal));
  return { kind: 'memory', window, fill, verify, storage: source.mappedFile, digest };
}

function failDetached(name: string, byteLength: number): never {
  rejectTensor(
    `expected ${byteLength} bytes, found none: its buffer was transferred or resized`,
    name,
  );
}
