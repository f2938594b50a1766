/** An open checkpoint of torch. */

import type { ForeignFormatError } from '../../errors/errors.js';
import { uncloneable } from '../../errors/uncloneable.js';
import type { Storage } from '../../storage/storage.js';
import type { ArchiveContent } from '../checksums.js';
import { ForeignFile } from '../foreign-file.js';
import type { ForeignTensor } from '../foreign-tensor.js';
import type { PlainValue } from './plain-values.js';
import type { RootKeys } from './roots.js';

/** What a checkpoint has beside its tensors. */
interface CheckpointFacts {
  readonly root: RootKeys;
  readonly values: PlainValue;
  readonly archive: ArchiveContent | undefined;
  readonly problems: readonly ForeignFormatError[];
}

const UNCLONEABLE = uncloneable('A TorchCheckpoint', 'post its path, and open that there');

/**
 * A checkpoint of torch, opened by `openTorchCheckpoint`. Its tensors are those of the state dict at
 * {@link root}; nothing of it was run.
 *
 * @example
 * ```ts
 * const checkpoint = openTorchCheckpoint('model.ckpt');
 * for (const [name, tensor] of checkpoint) console.log(name, tensor.dtype, tensor.shape);
 * // → w F32 [ 2, 3 ]
 * // → b F32 [ 2 ]
 * ```
 */
export class TorchCheckpoint extends ForeignFile {
  /** @internal */
  override readonly uncloneable: symbol = UNCLONEABLE;
  /** The keys that lead to the state dict: as they were given, or chosen; empty for the whole checkpoint. */
  readonly root: RootKeys;
  readonly #values: PlainValue;

  /** @internal Takes ownership of the storage. */
  constructor(storage: Storage, tensors: readonly ForeignTensor[], facts: CheckpointFacts) {
    super(storage, tensors, facts.archive, facts.problems);
    this.root = Object.freeze([...facts.root]);
    this.#values = facts.values;
  }

  /**
   * Everything in the checkpoint that is not a tensor, whatever the root: the epoch, hyperparameters, the
   * state of an optimizer without its tensors. The same object on every call, also after `close()`.
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
