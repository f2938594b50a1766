/** The tensors of remote checkpoints as writers take them: each is fetched when its turn comes. */

import { argumentTypeError } from '../../errors/arguments.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { NamedTensors, NewTensor } from './tensor-input.js';

/** A remote checkpoint, or a view of one. */
export interface FetchableTensors {
  /** False: tensors are fetched. */
  readonly local: false;
  /** Lists all tensors. */
  tensors(options?: { readonly signal?: AbortSignal | undefined }): Promise<TensorEntry[]>;
  /** Fetches a tensor. */
  getTensor(name: string, options?: { readonly signal?: AbortSignal | undefined }): Promise<Tensor>;
}

/** Members of the library's own remote checkpoints. */
interface OwnTensors extends FetchableTensors {
  entriesNow(): TensorEntry[];
}

/** Whether tensors are those of a remote checkpoint. */
export function isFetchable(tensors: unknown): tensors is OwnTensors {
  const { local, getTensor } = Object(tensors) as Partial<FetchableTensors>;
  return local === false && typeof getTensor === 'function';
}

/** Throws a TypeError for a remote checkpoint, whose tensors a synchronous function cannot fetch. */
export function requireInMemory(tensors: unknown): void {
  if (!isFetchable(tensors)) return;
  const expected =
    'tensors in memory: await readTensors() of a remote checkpoint, or pass it to serializeStream';
  throw argumentTypeError('tensors', expected, tensors);
}

/** Returns the tensors of a remote checkpoint, whose headers it fetches. */
export async function fetchedTensors(
  checkpoint: FetchableTensors,
  signal: AbortSignal | undefined,
): Promise<NamedTensors> {
  return listed(checkpoint, await checkpoint.tensors({ signal }), signal);
}

/**
 * As above, by headers that are known; anything but a remote checkpoint as it is.
 *
 * @throws TypeError `ERR_INVALID_STATE` when headers have not been fetched
 */
export function withFetchedNow(
  tensors: NamedTensors | FetchableTensors,
  signal: AbortSignal | undefined,
): NamedTensors {
  if (!isFetchable(tensors)) return tensors as NamedTensors;
  return listed(tensors, tensors.entriesNow(), signal);
}

function listed(
  checkpoint: FetchableTensors,
  entries: readonly TensorEntry[],
  signal: AbortSignal | undefined,
): NamedTensors {
  const fetched = entries.map(({ name, dtype, shape }): [string, NewTensor] => {
    const data = async (): Promise<Uint8Array> =>
      (await checkpoint.getTensor(name, { signal })).bytes;
    return [name, { dtype, shape, data } as NewTensor];
  });
  return new Map(fetched) as NamedTensors;
}
