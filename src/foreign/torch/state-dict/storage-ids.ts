/** Persistent ids of checkpoints: each names a storage. */

import { FormatError, quoteName } from '../../../errors/errors.js';
import { formatPlace, type PickleContext } from '../../pickle/limits.js';
import { PickleBytes, PickleGlobal, type PickleValue } from '../../pickle/values.js';
import { TorchGlobal } from './globals.js';
import { TorchStorage, TorchStorageView } from './values.js';

/** Keys are numbers in practice; they become names of records. */
const KEY = /^[0-9A-Za-z_.-]{1,64}$/;

/** Longest name of a device. */
const LONGEST_TEXT = 1000;

/** Parts of the persistent id of a module's class. */
const MODULE_LENGTH = 4;

/** The storages that a checkpoint's pickle names. */
export class StorageIds {
  /** By key, in order of first mention. */
  readonly storages: Map<string, TorchStorage> = new Map();
  readonly #hasViews: boolean;
  /** Persistent ids by key, in the legacy stream: a key keeps its meaning. */
  readonly #views = new Map<string, TorchStorageView>();
  readonly #context: PickleContext;

  /** Only the legacy stream has views. */
  constructor(hasViews: boolean, context: PickleContext) {
    this.#hasViews = hasViews;
    this.#context = context;
  }

  /**
   * ("storage", class, key, location, element count), in the legacy stream with a view; there also ("module", class,
   * file, source) for the class of a whole module, whose source torch only compares.
   */
  resolve(id: PickleValue, at: number): TorchStorage | TorchStorageView | PickleGlobal {
    const parts = Array.isArray(id) ? id : [];
    const [tag, type, name, location, count] = parts;
    const isModule = this.#hasViews && idText(tag) === 'module' && parts.length === MODULE_LENGTH;
    if (isModule && type instanceof PickleGlobal && type.isUnknown) return type;
    if (idText(tag) !== 'storage' || parts.length !== (this.#hasViews ? 6 : 5)) {
      return this.#refuse('the persistent id of a storage', 'another one', at);
    }
    if (!(type instanceof TorchGlobal) || type.kind !== 'storage') {
      return this.#refuse('the class of a storage', 'another value', at);
    }
    // Python would name the records of a bytes key as b'0'.
    if (typeof name !== 'string' || !KEY.test(name)) {
      return this.#refuse('the key of a storage', 'another value', at);
    }
    // Unused here, but torch fails on any other location.
    if (idText(location) === undefined) {
      return this.#refuse(`the location of storage ${quoteName(name)}`, 'another value', at);
    }
    if (!isCount(count)) {
      return this.#refuse(`the length of storage ${quoteName(name)}`, 'another value', at);
    }
    const storage = this.storages.get(name) ?? new TorchStorage(name, type.dtype, count);
    const isSame = storage.dtype === type.dtype && storage.elementCount === count;
    if (!isSame || this.#views.has(name)) {
      const expected = `storage ${quoteName(name)} to stay the same`;
      return this.#refuse(expected, 'another class or length', at);
    }
    this.storages.set(name, storage);
    const [view = null] = parts.slice(5);
    return view === null ? storage : this.#view(storage, view, at);
  }

  /** (key, offset, length), in elements of the whole storage. */
  #view(storage: TorchStorage, view: PickleValue, at: number): TorchStorageView {
    const [name, begin, count] = Array.isArray(view) ? view : [];
    const isWithin = isCount(begin) && isCount(count) && begin + count <= storage.elementCount;
    if (typeof name !== 'string' || !isWithin) {
      const expected = `a part of storage ${quoteName(storage.key)}`;
      return this.#refuse(expected, 'another value', at);
    }
    const part = this.#views.get(name) ?? new TorchStorageView(storage, begin, count);
    const isSame = part.whole === storage && part.begin === begin && part.elementCount === count;
    if (!isSame || this.storages.has(name)) {
      return this.#refuse(`the key ${quoteName(name)} to name one thing`, 'another', at);
    }
    this.#views.set(name, part);
    return part;
  }

  #refuse(expected: string, found: string, at: number): never {
    throw new FormatError(
      'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
      `${formatPlace(at, this.#context)}: expected ${expected}, found ${found}`,
      this.#context,
    );
  }
}

/** Torch accepts ASCII bytes as a text, but no bytearray. */
function idText(value: PickleValue | undefined): string | undefined {
  if (typeof value === 'string') return value.length <= LONGEST_TEXT ? value : undefined;
  if (!(value instanceof PickleBytes) || value.isMutable) return undefined;
  const { bytes } = value;
  const isText = bytes.length <= LONGEST_TEXT && bytes.every((byte) => byte < 0x80);
  return isText ? String.fromCharCode(...bytes) : undefined;
}

/** Lengths are exact even in bytes. */
function isCount(value: PickleValue | undefined): value is number {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER / 16;
}
