/** Opens PyTorch checkpoints. */

import { readdirSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../../errors/arguments.js';
import type { ErrorContext } from '../../errors/errors.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import { singleFile } from '../../file/checkpoint/find-files.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import type { VerifiableSource } from '../../file/checkpoint/verify.js';
import { isIndexPath } from '../../file/shards/file-choice.js';
import {
  incompleteModelError,
  isRankName,
  partOfRank,
} from '../../file/shards/incomplete-models.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { STORAGE_OPTIONS, type StorageOptions } from '../../platform/storage/open.js';
import { fileKindOf, isUnreadKind, otherKind } from '../file-kind.js';
import { ForeignShard } from '../foreign-shard.js';
import { FOREIGN_LIMITS, type ForeignLimits, requireLimits } from '../limits.js';
import { openForeign } from '../open-file.js';
import { allPickleLimits, PICKLE_LIMITS, type PickleLimits } from '../pickle/limits.js';
import { MemoryBudget } from '../pickle/memory-budget.js';
import type { PickleValue } from '../pickle/values.js';
import { readLegacyStream } from './legacy-stream.js';
import { openSharded, openShardsSkippingFailed, type TorchFile } from './sharded.js';
import type { UnknownGlobals } from './state-dict/builders.js';
import { plainValueOf } from './state-dict/plain-values.js';
import { chooseRoot, named, stateDictAt, tensorsIn } from './state-dict/roots.js';
import { checkTorchTensors, spendTensors } from './tensors.js';
import { type ReadOptions, readZipCheckpoint } from './zip-checkpoint.js';

/** Limits on the cost of a torch checkpoint. The defaults are far above the needs of real ones. */
export interface TorchLimits extends PickleLimits, ForeignLimits {
  /** Longest index of a checkpoint in several files, in bytes; 100 MiB by default. */
  readonly maxIndexByteLength?: number | undefined;
}

/** Names of the limits. */
export const TORCH_LIMITS: OptionNames<TorchLimits> = {
  ...FOREIGN_LIMITS,
  ...PICKLE_LIMITS,
  maxIndexByteLength: true,
};

/** Options of PyTorch checkpoints. */
export interface OpenTorchOptions extends StorageOptions {
  /** Limits on the cost of the file; the defaults are far above the needs of real checkpoints. */
  readonly limits?: TorchLimits | undefined;
  /**
   * The keys that lead to the state dict: a text with dots between them, such as `'state_dict'` or `'model.ema'`, or
   * an array, such as `['optimizer_states', 0]`, for numbers and for keys with dots; `[]` takes all tensors of the
   * file. By default the state dict is chosen by the outermost keys: `state_dict`, `model`, `module`, `ema` and the
   * like win over the rest, states of optimizers and random generators never do. Without such keys, it is the
   * checkpoint itself if it has tensors under its own keys, else the only dict with tensors.
   */
  readonly root?: string | RootKeys | undefined;
  /**
   * How to treat classes and functions that are not on torch's own list: by default the file is refused; with
   * `'placeholder'` they stay in `extra()` as data, and whole modules are read as `state_dict()` lists them. Names that run code are always refused, and nothing is ever run.
   */
  readonly unknownGlobals?: UnknownGlobals | undefined;
}

/** Names of the options. */
export const OPEN_TORCH_OPTIONS: OptionNames<OpenTorchOptions> = {
  ...STORAGE_OPTIONS,
  limits: TORCH_LIMITS,
  root: true,
  unknownGlobals: true,
};

/**
 * Opens a checkpoint only for `verify`. With an index the report then lists every problem: shards that are
 * missing or cannot be opened, tensors missing from their shards, and wrong checksums of the other shards, where
 * `open` without `skipFailed` throws the first problem.
 *
 * @throws As without `skipFailed`, but no errors of a shard of several
 */
export function openTorchCheckpoint(
  path: PathLike,
  options: OpenTorchOptions & { readonly skipFailed: true },
): VerifiableSource;
/**
 * Opens a checkpoint that `torch.save` wrote (`.pt`, `.pth`, `.bin`, `.ckpt`): reads the directory and the pickle as
 * data, maps the file, reads none of the tensors. Never runs the pickle, and refuses classes and functions that are
 * not on torch's own list of harmless ones, by name.
 *
 * Leaves out tensors that safetensors cannot hold, such as sparse, quantized and complex128 ones: `problems` has
 * their names and reasons, and `getTensor` of such a name throws the reason.
 *
 * For a checkpoint in several files pass the index (`pytorch_model.bin.index.json`): opens all shards.
 *
 * @throws FormatError if the file is not a checkpoint, is incomplete or damaged, or names forbidden globals
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_MAPPING_UNAVAILABLE`
 * @throws Error Node's own `ENOENT`, `EACCES`, `ENOMEM` and the like
 */
export function openTorchCheckpoint(path: PathLike, options?: OpenTorchOptions): Checkpoint;
export function openTorchCheckpoint(
  path: PathLike,
  given: OpenTorchOptions & InternalOptions = {},
): VerifiableSource {
  requireOptions(given, { ...OPEN_TORCH_OPTIONS, skipFailed: true, acceptsIncomplete: true });
  const { skipFailed = false, acceptsIncomplete = false, ...options } = given;
  requireBoolean('skipFailed', skipFailed);
  const open = opener(options);
  const { label } = locate(path);
  if (isIndexPath(label)) {
    const openAll = skipFailed ? openShardsSkippingFailed : openSharded;
    return openAll(label, options.limits?.maxIndexByteLength, open);
  }
  if (!acceptsIncomplete) requireComplete(label);
  const { shard, info } = open(path);
  return Checkpoint.of(LazyShards.ofOpen(singleFile(label), [[0, shard]]), info);
}

/** Options for other parts of this package. */
interface InternalOptions {
  readonly skipFailed?: boolean | undefined;
  /** Whether to accept the file of one rank, to inspect it. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/**
 * Throws for a file of one rank of several: `consolidated.00.pth` of Llama, or a file in `mp_rank_00` of Megatron.
 *
 * @throws FormatError `SAFETENSORS_DISTRIBUTED_PART`
 */
function requireComplete(path: string): void {
  const file = resolve(path);
  for (const ranked of [file, dirname(file)]) {
    const name = basename(ranked);
    const found = isRankName(name) ? partOfRank(name, siblingsIn(dirname(ranked))) : null;
    if (found !== null) throw incompleteModelError(found, 'file', path);
  }
}

/** Empty for a folder that cannot be listed: its files can still be opened. */
function siblingsIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Opens single files with these options. */
function opener(options: OpenTorchOptions): (path: PathLike) => TorchFile {
  const limits = requireLimits(options.limits, TORCH_LIMITS);
  const { unknownGlobals = 'refuse' } = options;
  if (unknownGlobals !== 'refuse' && unknownGlobals !== 'placeholder') {
    throw argumentRangeError('unknownGlobals', "'refuse' or 'placeholder'", unknownGlobals);
  }
  const reading = { pickle: allPickleLimits(limits), archive: limits, unknownGlobals };
  const root = rootOf(options.root);
  return (path) => openOne(path, options, reading, root);
}

function openOne(
  path: PathLike,
  options: OpenTorchOptions,
  reading: ReadOptions,
  root: RootKeys | undefined,
): TorchFile {
  const { maxDepth } = reading.pickle;
  return openForeign(path, options, (start, file, context) => {
    const kind = fileKindOf(start);
    const isRead = (kind === 'zip' || kind === 'pickle') && !isUnreadKind(start, context.path);
    if (!isRead) {
      throw otherKind(start, 'a PyTorch checkpoint', context);
    }
    const read = kind === 'zip' ? readZipCheckpoint : readLegacyStream;
    const described = read(file, reading, context);
    const { value } = described;
    const memory = new MemoryBudget(reading.pickle, context);
    const extra = plainValueOf(value, maxDepth, memory, context);
    const keys = root ?? rootIn(value, reading, context);
    const placed = stateDictAt(value, keys, maxDepth, memory, context);
    // Refuse too many tensors early, before comparing names.
    spendTensors(placed.length, memory);
    const tensors = named(placed, context);
    const { problems, tensorsIn: tensorsOf } = checkTorchTensors(
      tensors,
      described,
      options.limits ?? {},
      memory,
      context,
    );
    const { archive } = described;
    const info = { format: 'torch', root: keys, extra: () => extra, problems } as const;
    return (storage) => ({ shard: new ForeignShard(storage, tensorsOf(storage), archive), info });
  });
}

/** A budget of its own: the memory of the search is free again when it ends. */
function rootIn(value: PickleValue, { pickle }: ReadOptions, context: ErrorContext): RootKeys {
  const memory = new MemoryBudget(pickle, context);
  return chooseRoot(value, tensorsIn(value, pickle.maxDepth, memory, context), context);
}

function rootOf(root: string | RootKeys | undefined): RootKeys | undefined {
  if (root === undefined) return undefined;
  if (typeof root === 'string') return root.split('.');
  const isKeys =
    Array.isArray(root) &&
    root.every((key) => typeof key === 'string' || Number.isSafeInteger(key));
  if (!isKeys)
    throw argumentTypeError(
      'root',
      'keys with dots between them, or an array of strings and integers',
      root,
    );
  return root;
}
