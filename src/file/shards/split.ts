/** Splitting a state dict into shards, as `huggingface_hub` does it. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireFunction,
  requireOptions,
} from '../../errors/arguments.js';
import { quoteName } from '../../errors/errors.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import { readSpec, type TensorSpec } from '../../header/tensor-spec.js';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from './file-names.js';
import { parseByteSize } from './sizes.js';

/** The default of `huggingface_hub`. */
export const DEFAULT_MAX_SHARD_SIZE = '5GB';

/** Anything whose size in bytes is known: a `Tensor`, a typed array, an ArrayBuffer. */
export interface Sized {
  /** Bytes that it takes in its shard. */
  readonly byteLength: number;
}

/** Options of `splitStateDictIntoShards`. */
export interface SplitOptions<T extends Sized | TensorSpec> {
  /**
   * Bytes of tensors per shard, as a number (`Infinity`: no limit) or a text such as `'5GB'`,
   * `'200 MB'` or `'1.5GiB'`. Default `'5GB'`.
   */
  maxShardSize?: number | string;
  /** A plain file name with `{suffix}` exactly once. Default `'model{suffix}.safetensors'`. */
  filenamePattern?: string;
  /**
   * Key of the memory of a tensor, compared as by a Map; null if it shares none. Tensors with
   * equal keys go into one shard and count once, by the size of the first. Default: no keys.
   */
  storageId?: (name: string, tensor: T) => unknown;
}

const SPLIT_OPTIONS: OptionNames<SplitOptions<Sized>> = {
  maxShardSize: true,
  filenamePattern: true,
  storageId: true,
};

/** A split without the names of its tensors. */
export interface SplitSummary {
  /** Metadata of the index, with its spelling. */
  metadata: {
    /** Sum of the sizes, in bytes; memory under several names counts once. */
    total_size: number;
  };
  /** Whether there is more than one file. */
  isSharded: boolean;
}

/** A split: the file of each tensor. */
export interface StateDictSplit extends SplitSummary {
  /** Names of the tensors by file; files in their order, names as they follow in the file's shard. */
  filenameToTensors: Map<string, string[]>;
  /** File by tensor, in the order of the files: what the index calls `weight_map`. */
  tensorToFilename: Map<string, string>;
}

/** Further names of memory that the tensor of this number has, too. */
interface ShardGroup {
  readonly number: number;
  readonly names: string[];
}

/**
 * Splits tensors that share no memory, given by their sizes in bytes, as
 * {@link splitStateDictIntoShards} does; returns the numbers of the tensors by shard.
 */
export function splitByteLengths(byteLengths: ArrayLike<number>, limit: number): number[][] {
  const shards: number[][] = [];
  let open: number[] = [];
  let openByteLength = 0;
  for (let number = 0; number < byteLengths.length; number++) {
    const byteLength = byteLengths[number] as number;
    if (byteLength > limit) {
      shards.push([number]);
    } else {
      if (openByteLength + byteLength > limit) {
        shards.push(open);
        open = [];
        openByteLength = 0;
      }
      open.push(number);
      openByteLength += byteLength;
    }
  }
  if (open.length > 0) shards.push(open);
  return shards;
}

/**
 * Splits a state dict into shards of at most `maxShardSize` bytes, with the result of
 * `split_state_dict_into_shards_factory` of `huggingface_hub`. Takes whatever `saveCheckpoint` takes, and anything
 * else of a known size, in its order. A tensor larger than the limit gets a separate shard, which comes before the
 * shard that is being filled; later tensors still go into the latter. Further names of the same memory come last in
 * its shard. Strings, which bitsandbytes leaves in state dicts, are skipped. Without tensors there are no files.
 * Nothing is read or written; time and memory grow with the number of tensors.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of other types and tensors without a size
 * @throws InvalidTensorError for an impossible dtype or shape
 * @throws RangeError `ERR_OUT_OF_RANGE` for a size that means nothing, for a pattern that would give
 * two shards one name or is not a plain file name, for sizes that are not whole numbers of bytes or
 * together more than 2^53 - 1, and for a name that comes twice
 *
 * @example
 * ```ts
 * const tensors = new Map([['a', new Float32Array(3)], ['b', new Float32Array(2)]]);
 * const { filenameToTensors } = splitStateDictIntoShards(tensors, { maxShardSize: '12B' });
 * console.log([...filenameToTensors.values()]); // → [ [ 'a' ], [ 'b' ] ]
 * ```
 */
export function splitStateDictIntoShards<T extends Sized | TensorSpec>(
  tensors: NamedValues<T | string>,
  options: SplitOptions<T> = {},
): StateDictSplit {
  requireOptions(options, SPLIT_OPTIONS);
  const { maxShardSize = DEFAULT_MAX_SHARD_SIZE, storageId } = options;
  const pattern = new FilenamePattern(options.filenamePattern ?? DEFAULT_FILENAME_PATTERN);
  const limit = parseByteSize(maxShardSize, 'maxShardSize');
  if (storageId !== undefined) requireFunction('storageId', storageId);

  const firstNames: string[] = [];
  const byteLengths: number[] = [];
  const groups = new Map<unknown, ShardGroup>();
  let total = 0;
  for (const [name, tensor] of pairsOf(tensors, 'tensors')) {
    if (typeof tensor === 'string') continue;
    const key = storageId?.(name, tensor) ?? null;
    const group = key === null ? undefined : groups.get(key);
    if (group !== undefined) {
      group.names.push(name);
      continue;
    }
    const byteLength = checkedByteLength(name, tensor);
    total += byteLength;
    if (key !== null) groups.set(key, { number: firstNames.length, names: [] });
    firstNames.push(name);
    byteLengths.push(byteLength);
  }
  if (!Number.isSafeInteger(total)) {
    throw argumentRangeError('tensors', 'of at most 2^53 - 1 bytes together', total);
  }
  const shardOf: string[][] = [];
  const shards = splitByteLengths(byteLengths, limit).map((numbers) => {
    const names = numbers.map((number) => firstNames[number] as string);
    for (const number of numbers) shardOf[number] = names;
    return names;
  });
  for (const { number, names } of groups.values()) {
    for (const name of names) shardOf[number]?.push(name);
  }
  return nameShards(shards, pattern, total);
}

function nameShards(shards: string[][], pattern: FilenamePattern, total: number): StateDictSplit {
  const filenameToTensors = new Map<string, string[]>();
  const tensorToFilename = new Map<string, string>();
  shards.forEach((names, i) => {
    const filename = pattern.filename(i + 1, shards.length);
    filenameToTensors.set(filename, names);
    for (const name of names) {
      if (tensorToFilename.has(name)) {
        throw argumentRangeError('tensors', 'pairs with different names', name);
      }
      tensorToFilename.set(name, filename);
    }
  });
  const isSharded = shards.length > 1;
  return { filenameToTensors, tensorToFilename, metadata: { total_size: total }, isSharded };
}

function checkedByteLength(name: string, tensor: Sized | TensorSpec): number {
  if (isSpec(tensor)) return readSpec(name, tensor).byteLength;
  const byteLength = tensor?.byteLength;
  const subject = `byteLength of tensor ${quoteName(name)}`;
  if (typeof byteLength !== 'number') throw argumentTypeError(subject, 'a number', byteLength);
  if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
    throw argumentRangeError(subject, 'a number of bytes from 0 to 2^53 - 1', byteLength);
  }
  return byteLength;
}

/** Whether the size of a tensor is that of its dtype and shape alone. */
function isSpec(tensor: Sized | TensorSpec | null): tensor is TensorSpec {
  return (
    typeof tensor === 'object' && tensor !== null && !('byteLength' in tensor) && 'dtype' in tensor
  );
}
