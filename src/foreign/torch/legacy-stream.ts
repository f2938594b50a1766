/**
 * PyTorch checkpoints before version 1.6: five pickles one after the other, then the storages, each after the
 * number of its elements. Always little endian, regardless of the third pickle.
 */

import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import { HEAD_BYTE_LENGTH, isTarArchive } from '../../header/foreign-formats.js';
import type { PickleHost } from '../pickle/host.js';
import type { PickleContext } from '../pickle/limits.js';
import { readPickle } from '../pickle/machine.js';
import { PickleList, PickleMap, type PickleValue } from '../pickle/values.js';
import type { ByteReader } from '../zip/archive.js';
import { arrayHost, dictOfArrays } from './array-pickle.js';
import { type DescribedCheckpoint, invalidTorch } from './described.js';
import { noPersistentIds, type PersistentIds, TorchHost } from './state-dict/builders.js';
import { StorageIds } from './state-dict/storage-ids.js';
import type { TorchStorage } from './state-dict/values.js';
import type { ReadOptions } from './zip-checkpoint.js';

/** The values of the first two pickles. */
export const MAGIC_NUMBER = 0x1950a86a20f9469cfc6cn;
export const PROTOCOL_VERSION = 1001;

/** The number before the bytes of a storage. */
const COUNT_BYTE_LENGTH = 8;

/** The pickles of most checkpoints are shorter than this. */
const TYPICAL_HEAD_BYTE_LENGTH = 2 ** 20;

/**
 * Reads the pickles and the lengths of the storages.
 *
 * @throws FormatError
 */
export function readLegacyStream(
  file: ByteReader,
  options: ReadOptions,
  context: ErrorContext,
): DescribedCheckpoint {
  // Full torch.load asks the tar reader first.
  if (isTarArchive(file.read(0, Math.min(HEAD_BYTE_LENGTH, file.byteLength)))) {
    const message =
      'expected a torch checkpoint, found a tar archive too: torch.load opens it as such, and runs its code';
    const found = { ...context, foundFormat: 'tar' } as const;
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, found);
  }
  if (file.byteLength > TYPICAL_HEAD_BYTE_LENGTH) {
    try {
      return readFromHead(file, file.read(0, TYPICAL_HEAD_BYTE_LENGTH), options, context);
    } catch (error) {
      // The pickles may only continue beyond these bytes.
      if (!(error instanceof FormatError)) throw error;
    }
  }
  // Read one byte more: a pickle that continues there is too long, not cut.
  const longest = Math.min(file.byteLength, options.pickle.maxPickleByteLength + 1);
  const isUpToEnd = longest === file.byteLength;
  const ends = { isUpToEnd, fileEnd: file.byteLength };
  return readFromHead(file, file.read(0, longest), options, { ...context, ...ends });
}

function readFromHead(
  file: ByteReader,
  head: Uint8Array,
  options: ReadOptions,
  context: PickleContext,
): DescribedCheckpoint {
  const ids = new StorageIds(true, context);
  let at = 0;
  const read = (host: PickleHost): PickleValue => {
    const { value, end } = readPickle(head, at, host, options.pickle, context);
    at = end;
    return value;
  };
  const hostOf = (persistentIds: PersistentIds): TorchHost =>
    new TorchHost(persistentIds, options.unknownGlobals, context);
  const next = (persistentIds: PersistentIds): PickleValue => read(hostOf(persistentIds));
  const none = noPersistentIds(context);
  const first = read(arrayHost(hostOf(none)));
  const dict = dictOfArrays(first, options.pickle.maxDepth);
  if (dict !== undefined) {
    if (at !== file.byteLength) {
      throw invalidTorch(`expected the end of the file at byte ${at}, found more bytes`, context);
    }
    const placesIn = (): never => {
      throw invalidTorch('expected arrays within the pickle, found a storage', context);
    };
    return { value: dict, isBigEndian: false, archive: undefined, placesIn: () => placesIn };
  }
  if (first !== MAGIC_NUMBER) {
    const message = 'expected a PyTorch checkpoint, found a pickle of something else';
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, context);
  }
  if (next(none) !== PROTOCOL_VERSION) {
    throw invalidTorch(
      `expected version ${PROTOCOL_VERSION} of the stream, found another`,
      context,
    );
  }
  if (!(next(none) instanceof PickleMap)) {
    throw invalidTorch(
      'expected facts about the system as the third pickle, found another value',
      context,
    );
  }
  const value = next((id, position) => ids.resolve(id, position));
  const { begins, end } = locateStorages(next(none), at, ids, file, context);
  if (end !== file.byteLength) {
    throw invalidTorch(`expected the end of the file at byte ${end}, found more bytes`, context);
  }
  return {
    value,
    isBigEndian: false,
    archive: undefined,
    placesIn: (whole) => (storage) => ({
      storage: whole,
      begin: begins.get(storage) as number,
      byteLength: storage.byteLength,
    }),
  };
}

/** Start of each storage's bytes, and the end of the last. */
interface LocatedStorages {
  readonly begins: ReadonlyMap<TorchStorage, number>;
  readonly end: number;
}

/**
 * Finds the storages after the pickles.
 *
 * @param keys the fifth pickle, which lists them
 * @param begin start of the first storage
 * @throws FormatError unless each has the length that its persistent id says
 */
export function locateStorages(
  keys: PickleValue,
  begin: number,
  { storages }: StorageIds,
  file: ByteReader,
  context: ErrorContext,
): LocatedStorages {
  if (!(keys instanceof PickleList)) {
    throw invalidTorch(
      'expected a list of storages as the fifth pickle, found another value',
      context,
    );
  }
  const begins = new Map<TorchStorage, number>();
  let at = begin;
  for (const key of keys.items) {
    const storage = typeof key === 'string' ? storages.get(key) : undefined;
    if (storage === undefined || begins.has(storage)) {
      const shown = typeof key === 'string' ? quoteName(key) : 'no key';
      throw invalidTorch(`expected every storage once, found ${shown}`, context);
    }
    begins.set(storage, at + COUNT_BYTE_LENGTH);
    at = storageEnd(storage, at, file, context);
  }
  if (begins.size !== storages.size) {
    const missing = [...storages.values()].find((storage) => !begins.has(storage));
    const key = quoteName(missing?.key ?? '');
    throw invalidTorch(
      `expected the bytes of storage ${key}, which tensors use, found none`,
      context,
    );
  }
  return { begins, end: at };
}

function storageEnd(
  { key, elementCount, byteLength }: TorchStorage,
  at: number,
  file: ByteReader,
  context: ErrorContext,
): number {
  const end = at + COUNT_BYTE_LENGTH + byteLength;
  if (end > file.byteLength) {
    const expected = `${byteLength} bytes of storage ${quoteName(key)} from byte ${at + COUNT_BYTE_LENGTH} on`;
    const message = `the file is incomplete: expected ${expected}, found its end at byte ${file.byteLength}; fetch it again`;
    throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, context);
  }
  const count = new DataView(file.read(at, at + COUNT_BYTE_LENGTH).buffer).getBigInt64(0, true);
  if (count === BigInt(elementCount)) return end;
  const expected = `${elementCount} elements in storage ${quoteName(key)} at byte ${at}`;
  throw invalidTorch(`expected ${expected}, found ${count}`, context);
}
