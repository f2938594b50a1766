/**
 * Reads `.metadata` of a distributed checkpoint: a pickle of known classes that lists every tensor, its pieces and
 * their places (torch 2.13, `torch/distributed/checkpoint/metadata.py` and `filesystem.py`). Read as data.
 */

import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import { pathError } from '../../file/shards/shard-paths.js';
import type { PickleHost } from '../pickle/host.js';
import type { AllPickleLimits } from '../pickle/limits.js';
import { readPickle } from '../pickle/machine.js';
import { MemoryBudget } from '../pickle/memory-budget.js';
import {
  PickleGlobal,
  PickleList,
  PickleMap,
  PickleObject,
  type PickleTuple,
  type PickleValue,
} from '../pickle/values.js';
import { MAX_RANK } from '../tensors/tensor-layout.js';
import { noPersistentIds, TorchHost } from '../torch/state-dict/builders.js';
import { TorchGlobal } from '../torch/state-dict/globals.js';
import { invalid } from './pieces/distributed-error.js';
import type { Box } from './pieces/tiling.js';

const METADATA_CLASSES: ReadonlySet<string> = new Set([
  ...['Metadata', 'TensorStorageMetadata', 'BytesStorageMetadata', 'ChunkStorageMetadata'],
  ...['TensorProperties', 'MetadataIndex', 'StorageMeta', '_MEM_FORMAT_ENCODING'],
]);
const PATH_CLASSES: ReadonlySet<string> = new Set([
  ...['PosixPath', 'PurePosixPath', 'WindowsPath', 'PureWindowsPath'],
]);

/** Names of classes by their module: no others are read, except the data classes that torch allows. */
const CLASSES: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['torch.distributed.checkpoint.metadata', METADATA_CLASSES],
  ['torch.distributed.checkpoint.filesystem', new Set(['_StorageInfo'])],
  ['pathlib', PATH_CLASSES],
  ['pathlib._local', PATH_CLASSES],
]);

/** A tensor in the list. */
export interface ListedTensor {
  readonly name: string;
  /** torch's name of the dtype. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly chunks: readonly Box[];
}

/** Where a piece is stored. */
export interface StoredItem {
  /** Name of its file, which is next to `.metadata`. */
  readonly file: string;
  readonly begin: number;
  readonly byteLength: number;
}

/** The contents of `.metadata`. */
export interface DistributedMetadata {
  readonly tensors: readonly ListedTensor[];
  /** Names of Python objects that are stored next to the tensors. */
  readonly objects: readonly string[];
  /** Returns where a piece is. Throws FormatError when it is not listed, or not readable. */
  itemOf(tensor: string, offsets: readonly number[]): StoredItem;
}

/** An instance of one of the classes: its state, and nothing of its code. */
class Instance extends PickleObject {
  readonly className: string;
  readonly #id: number;
  state: PickleValue = null;

  constructor(className: string, id: number) {
    super();
    this.className = className;
    this.#id = id;
  }

  /** Each instance is another key: the dict of places has one for each. */
  override get formattedKey(): string {
    return `i${this.#id}`;
  }
}

/** Creates instances of the listed classes, and values that torch allows. */
class MetadataHost implements PickleHost {
  readonly #torch: TorchHost;
  #count = 0;

  constructor(context: ErrorContext) {
    this.#torch = new TorchHost(noPersistentIds(context), 'refuse', context);
  }

  global(module: string, name: string): PickleGlobal | undefined {
    const isListed = CLASSES.get(module)?.has(name) === true;
    return isListed ? new PickleGlobal(module, name) : this.#torch.global(module, name);
  }

  call(callee: PickleGlobal, args: PickleTuple, at: number, isNew: boolean): PickleValue {
    if (callee instanceof TorchGlobal) return this.#torch.call(callee, args, at, isNew);
    return new Instance(callee.name, this.#count++);
  }

  build(target: PickleValue, state: PickleValue, at: number): PickleValue {
    if (!(target instanceof Instance)) return this.#torch.build(target, state, at);
    target.state = state;
    return target;
  }

  persistent(id: PickleValue, at: number): PickleValue {
    return this.#torch.persistent(id, at);
  }
}

/**
 * Reads the pickle.
 *
 * @throws FormatError `SAFETENSORS_INVALID_DISTRIBUTED` for other contents; as `readPickle`
 */
export function readMetadata(
  bytes: Uint8Array,
  limits: AllPickleLimits,
  context: ErrorContext,
): DistributedMetadata {
  const { value } = readPickle(bytes, 0, new MetadataHost(context), limits, context);
  const reader = new StateReader(new MemoryBudget(limits, context), context);
  const metadata = reader.stateOf(value, 'Metadata');
  const tensors: ListedTensor[] = [];
  const objects: string[] = [];
  for (const [key, entry] of reader.mapAt(metadata, 'state_dict_metadata')) {
    const name = reader.text(key, 'a name');
    if (entry instanceof Instance && entry.className === 'BytesStorageMetadata') objects.push(name);
    else tensors.push(reader.tensor(name, entry));
  }
  const places = new Map<string, PickleValue>();
  for (const [key, info] of reader.mapAt(metadata, 'storage_data')) {
    const index = reader.stateOf(key, 'MetadataIndex');
    const offset = index.get('offset') ?? null;
    if (offset === null) continue;
    const offsets = reader.sizes(offset, 'an offset');
    places.set(placeKey(reader.text(index.get('fqn'), 'a name'), offsets), info);
  }
  return {
    tensors,
    objects,
    itemOf: (tensor, offsets) => {
      const info = places.get(placeKey(tensor, offsets));
      if (info !== undefined) return reader.item(info, tensor);
      const message = `no file is listed for the piece at [${offsets.join(', ')}]`;
      throw invalid(message, { ...context, tensor });
    },
  };
}

/** The names of all files with pieces. */
export function filesOf({ tensors, itemOf }: DistributedMetadata): ReadonlySet<string> {
  return new Set(
    tensors.flatMap(({ name, chunks }) => chunks.map(({ offsets }) => itemOf(name, offsets).file)),
  );
}

function placeKey(name: string, offsets: readonly number[]): string {
  return JSON.stringify([name, ...offsets]);
}

/** Memory of a value that is read, and more for each dimension: a pickle can refer to one of them again and again. */
const VALUE_BYTE_LENGTH = 128;
const DIMENSION_BYTE_LENGTH = 16;

/** Reads the states of instances. */
class StateReader {
  readonly #memory: MemoryBudget;
  readonly #context: ErrorContext;

  constructor(memory: MemoryBudget, context: ErrorContext) {
    this.#memory = memory;
    this.#context = context;
  }

  stateOf(value: PickleValue | undefined, className: string): PickleMap {
    const isInstance = value instanceof Instance && value.className === className;
    this.#memory.spend(VALUE_BYTE_LENGTH);
    if (isInstance && value.state instanceof PickleMap) return value.state;
    this.#fail(className, 'an instance of this class');
  }

  mapAt(state: PickleMap, key: string): PickleMap {
    const value = state.get(key);
    return value instanceof PickleMap ? value : this.#fail(key, 'a dict');
  }

  text(value: PickleValue | undefined, what: string): string {
    return typeof value === 'string' ? value : this.#fail(what, 'a string');
  }

  /** The numbers of a `torch.Size`. */
  sizes(value: PickleValue | undefined, what: string): number[] {
    if (!Array.isArray(value)) this.#fail(what, 'a torch.Size');
    if (value.length > MAX_RANK) {
      const message = `expected at most ${MAX_RANK} dimensions, found ${value.length}`;
      throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, this.#context);
    }
    this.#memory.spend(DIMENSION_BYTE_LENGTH * value.length);
    return value.every(isLength) ? Array.from(value) : this.#fail(what, 'a torch.Size');
  }

  tensor(name: string, value: PickleValue): ListedTensor {
    const state = this.stateOf(value, 'TensorStorageMetadata');
    const chunks = state.get('chunks');
    if (!(chunks instanceof PickleList)) this.#fail('chunks', 'a list');
    return {
      name,
      dtype: this.#dtype(state.get('properties')),
      shape: this.sizes(state.get('size'), 'a shape'),
      chunks: chunks.items.map((chunk) => {
        const box = this.stateOf(chunk, 'ChunkStorageMetadata');
        return {
          offsets: this.sizes(box.get('offsets'), 'offsets'),
          shape: this.sizes(box.get('sizes'), 'sizes'),
        };
      }),
    };
  }

  /** The first of the properties, whose state is a tuple; a dict in older files. */
  #dtype(properties: PickleValue | undefined): string {
    const state = properties instanceof Instance ? properties.state : null;
    const [first] = Array.isArray(state) ? state : [];
    const dtype = state instanceof PickleMap ? state.get('dtype') : first;
    const isDtype = dtype instanceof TorchGlobal && dtype.kind === 'dtype';
    return isDtype ? dtype.name : this.#fail('the dtype of a tensor', 'a PyTorch dtype');
  }

  item(value: PickleValue, tensor: string): StoredItem {
    const state = this.stateOf(value, '_StorageInfo');
    const file = this.text(state.get('relative_path'), 'a relative path');
    const error = pathError(file) ?? (file.includes('/') || file === '.' ? 'a folder' : null);
    if (error !== null) {
      const message = `expected the name of a file in the same folder, found ${quoteName(file)}, ${error}`;
      throw invalid(message, { ...this.#context, tensor });
    }
    const transforms = state.get('transform_descriptors') ?? null;
    if (Array.isArray(transforms) ? transforms.length > 0 : transforms !== null) {
      throw invalid('transformed pieces are not supported', { ...this.#context, tensor });
    }
    const [begin, byteLength] = [state.get('offset'), state.get('length')];
    if (!isLength(begin) || !isLength(byteLength)) {
      this.#fail('the place of a piece', 'an offset and a length in bytes');
    }
    return { file, begin, byteLength };
  }

  #fail(what: string, expected: string): never {
    throw invalid(`${what} is not ${expected}`, this.#context);
  }
}

function isLength(value: PickleValue | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
