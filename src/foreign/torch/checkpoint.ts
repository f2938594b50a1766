/** An open checkpoint of torch. */

import type { FormatError } from '../../errors/errors.js';
import { uncloneable } from '../../errors/uncloneable.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import type { ForeignShard } from '../foreign-shard.js';
import type { PlainValue } from './state-dict/plain-values.js';
import type { RootKeys } from './state-dict/roots.js';

/** What a checkpoint has beside its tensors. */
export interface TorchFacts {
  readonly root: RootKeys;
  readonly values: PlainValue;
  /** Why other tensors cannot be had. */
  readonly problems: readonly FormatError[];
}

const UNCLONEABLE = uncloneable('A TorchCheckpoint', 'post its path, and open that there');

/**
 * A checkpoint of torch, opened by `openTorchCheckpoint`: a `Checkpoint` of one file, or of the files that an index
 * names. Its tensors are those of the state dict at {@link root}; nothing of it was run.
 *
 * @example
 * ```ts
 * const checkpoint = openTorchCheckpoint('model.ckpt');
 * for (const [name, tensor] of checkpoint) console.log(name, tensor.dtype, tensor.shape);
 * // → w F32 [ 2, 3 ]
 * // → b F32 [ 2 ]
 * ```
 */
export class TorchCheckpoint extends Checkpoint {
  /** @internal */
  override readonly uncloneable: symbol = UNCLONEABLE;
  /**
   * The keys that lead to the state dict, in the first file when there are several: as they were given, or chosen;
   * empty for the whole checkpoint.
   */
  readonly root: RootKeys;
  readonly #values: PlainValue;

  /** @internal Takes ownership of the shards. */
  constructor(shards: LazyShards<ForeignShard>, { root, values, problems }: TorchFacts) {
    super(shards, problems);
    this.root = Object.freeze([...root]);
    this.#values = values;
  }

  /**
   * Everything in the checkpoint that is not a tensor, whatever the root: the epoch, hyperparameters, the
   * state of an optimizer without its tensors. Of several files a Map by the names of the shards. The same object on
   * every call, also after `close()`.
   *
   * @example
   * ```ts
   * const values = openTorchCheckpoint('model.ckpt').values();
   * if (values instanceof Map) console.log(values.get('epoch'), values.get('flag')); // → 3 true
   * ```
   */
  values(): PlainValue {
    return this.#values;
  }
}
