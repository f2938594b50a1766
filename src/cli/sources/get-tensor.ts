/** All tensors of a source by name; one tensor, or a slice of it. */

import type { SliceIndices, Tensor, TensorEntry, TransferProgress } from '../../index.js';
import { foreignSource, type OpenedSource } from './open-source.js';

type OnProgress = (progress: TransferProgress) => void;

const READABLE = 'a file or checkpoint whose tensors can be read';

/** Longer local tensors are not fetched whole before they are used: each window is read when it is compared. */
const MAX_FETCHED = 2 ** 28;

/** A tensor that can be sliced. */
export interface FoundTensor {
  readonly dtype: Tensor['dtype'];
  readonly shape: readonly number[];
  slice(index: SliceIndices, onProgress?: OnProgress): Promise<Tensor>;
}

/**
 * Finds a tensor. Slicing a remote tensor fetches only the slice.
 *
 * @throws TensorNotFoundError; FormatError for a source whose tensors cannot be read
 */
export async function findTensor(
  opened: OpenedSource,
  name: string,
  signal: AbortSignal,
): Promise<FoundTensor> {
  if (!('checkpoint' in opened)) throw foreignSource(opened, READABLE);
  if (opened.kind === 'remote') {
    const { checkpoint } = opened;
    const { dtype, shape } = await checkpoint.info(name, { signal });
    const slice = (index: SliceIndices, onProgress?: OnProgress): Promise<Tensor> =>
      index.length === 0
        ? checkpoint.getTensor(name, { signal, onProgress })
        : checkpoint.getSlice(name, ...index, { signal, onProgress });
    return { dtype, shape, slice };
  }
  const tensor = opened.checkpoint.getTensor(name);
  const { dtype, shape } = tensor;
  const slice = async (index: SliceIndices): Promise<Tensor> =>
    index.length === 0 ? tensor : (tensor.slice(...index) as Tensor);
  return { dtype, shape, slice };
}

/**
 * The tensors, one after the other, to be seen once: each is valid until the next.
 *
 * @throws As {@link findTensor}
 */
export async function* tensorsInTurn(
  opened: OpenedSource,
  entries: readonly TensorEntry[],
  signal: AbortSignal,
): AsyncGenerator<Tensor, void, void> {
  if (!('checkpoint' in opened)) throw foreignSource(opened, READABLE);
  const { kind, checkpoint } = opened;
  const isStreamed = ({ byteLength }: TensorEntry): boolean =>
    kind === 'remote' || byteLength <= MAX_FETCHED;
  const names = entries.filter(isStreamed).map(({ name }) => name);
  const stream = checkpoint.stream({ names, reuse: true, signal });
  try {
    for (const entry of entries) {
      const next = isStreamed(entry) ? await stream.next() : undefined;
      yield next?.value?.[1] ?? (await checkpoint.getTensor(entry.name));
    }
  } finally {
    await stream.return();
  }
}

/** All tensors by name, in the order of their bytes; null for those that safetensors cannot hold. */
export async function tensorsByName(
  opened: OpenedSource,
  signal: AbortSignal,
): Promise<Map<string, TensorEntry | null>> {
  if (!('checkpoint' in opened)) throw foreignSource(opened, READABLE);
  const entries = await opened.checkpoint.tensors({ signal });
  const tensors = new Map<string, TensorEntry | null>(entries.map((one) => [one.name, one]));
  const problems = opened.kind === 'remote' ? [] : opened.checkpoint.problems;
  for (const { tensor = '' } of problems) tensors.set(tensor, null);
  return tensors;
}
