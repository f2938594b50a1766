/** Opens NumPy arrays. */

import { argumentRangeError, type OptionNames, requireOptions } from '../../errors/arguments.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import { singleFile } from '../../file/checkpoint/find-files.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { STORAGE_OPTIONS, type StorageOptions } from '../../platform/storage/open.js';
import { fileKindOf, isUnreadKind, otherKind } from '../file-kind.js';
import { ForeignShard } from '../foreign-shard.js';
import { FOREIGN_LIMITS, type ForeignLimits, requireLimits } from '../limits.js';
import { openForeign } from '../open-file.js';
import { describeNpy, describeNpz } from './arrays.js';
import { VOID_DTYPES, type VoidDtype } from './item-types.js';

/** Options of NumPy arrays. */
export interface OpenNumpyOptions extends StorageOptions {
  /** Limits of what the file may cost; the defaults are far above what real ones need. */
  readonly limits?: ForeignLimits | undefined;
  /**
   * The dtype of arrays of opaque items (`V2`, `V1`). NumPy saves bfloat16 and float8 of `ml_dtypes`, which JAX uses,
   * so and forgets their names; by default they are refused. It applies to all arrays whose items have its length.
   */
  readonly voidDtype?: VoidDtype | undefined;
}

/** Names of the options. */
export const OPEN_NUMPY_OPTIONS: OptionNames<OpenNumpyOptions> = {
  ...STORAGE_OPTIONS,
  limits: FOREIGN_LIMITS,
  voidDtype: true,
};

/**
 * Opens an array that `numpy.save` wrote (`.npy`), or several of `numpy.savez` (`.npz`): reads and checks the
 * headers, maps the file, reads none of the data. Nothing is ever unpickled: arrays of objects are refused,
 * and so is all that safetensors has no dtype for.
 *
 * The tensors of an `.npz` are called as its members, without `.npy`; the only one of an `.npy` has the empty
 * name. Stored arrays in C order are views of the mapped file; those in Fortran order, with the high byte
 * first, or compressed are made when their bytes are first used. Of compressed arrays one at a time is kept
 * in memory.
 *
 * @throws FormatError `SAFETENSORS_FOREIGN_FORMAT`, `SAFETENSORS_INVALID_NUMPY`,
 *   `SAFETENSORS_UNSUPPORTED_TENSOR`, `SAFETENSORS_INVALID_ARCHIVE`, `SAFETENSORS_FOREIGN_LIMIT`
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_MAPPING_UNAVAILABLE`
 * @throws Error Node's own `ENOENT`, `EACCES`, `ENOMEM` and the like
 */
export function openNumpy(path: PathLike, options: OpenNumpyOptions = {}): Checkpoint {
  requireOptions(options, OPEN_NUMPY_OPTIONS);
  const limits = requireLimits(options.limits, FOREIGN_LIMITS);
  const { voidDtype } = options;
  if (voidDtype !== undefined && !VOID_DTYPES.includes(voidDtype)) {
    throw argumentRangeError('voidDtype', `one of ${VOID_DTYPES.join(', ')}`, voidDtype);
  }
  return openForeign(path, options, (start, file, context) => {
    const kind = fileKindOf(start);
    const isRead = (kind === 'npy' || kind === 'zip') && !isUnreadKind(start, context.path);
    if (!isRead) throw otherKind(start, 'a NumPy array', context);
    const arrays =
      kind === 'npy'
        ? describeNpy(start, file, { ...limits, voidDtype }, context)
        : describeNpz(file, { ...limits, voidDtype }, context);
    const archive = { entries: arrays.entries, limits };
    const { problems } = arrays;
    return (storage) => {
      const shard = new ForeignShard(storage, arrays.tensorsIn(storage), archive);
      const files = singleFile(locate(path).label);
      return Checkpoint.of(LazyShards.ofOpen(files, [[0, shard]]), { problems, format: 'numpy' });
    };
  });
}
