/** An open checkpoint of torch. */

import type { FormatError } from '../../errors/errors.js';
import { uncloneable } from '../../errors/uncloneable.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import type { PlainValue, RootKeys } from '../../file/source/plain-value.js';
import type { ForeignShard } from '../foreign-shard.js';

/** Contents of a checkpoint beside its tensors. */
export interface TorchFacts {
  readonly root: RootKeys;
  readonly values: PlainValue;
  /** The reasons why the other tensors cannot be read. */
  readonly problems: readonly FormatError[];
}

const UNCLONEABLE = uncloneable('A TorchCheckpoint', 'post its path, and open that there');

/**
 * A checkpoint of torch, opened by `open`: a `Checkpoint` of one file, or of the files that an index
 * names. Its tensors are those of the state dict at {@link root}; opening it ran no code from the file.
 */
export class TorchCheckpoint extends Checkpoint {
  /** @internal */
  override readonly uncloneable: symbol = UNCLONEABLE;
  /**
   * The keys that lead to the state dict, given or chosen; of several files those of the first. Empty for the whole
   * checkpoint.
   */
  override get root(): RootKeys {
    return this.#root;
  }

  readonly #root: RootKeys;
  readonly #values: PlainValue;

  /** @internal Takes ownership of the shards. */
  constructor(shards: LazyShards<ForeignShard>, { root, values, problems }: TorchFacts) {
    super(shards, problems, 'torch');
    this.#root = Object.freeze([...root]);
    this.#values = values;
  }

  /**
   * Everything in the checkpoint but its tensors, whatever the root: the epoch, hyperparameters, an optimizer's state
   * without its tensors. For several files a Map by shard name. Returns the same object on every call, also after
   * `close()`.
   */
  values(): PlainValue {
    return this.#values;
  }

  override async extra(): Promise<PlainValue> {
    return this.#values;
  }
}
