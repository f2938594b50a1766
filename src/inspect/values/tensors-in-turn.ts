/** Reads the tensors of checkpoints and pipelines one after the other, some megabytes of short ones together. */

import { argumentTypeError } from '../../errors/arguments.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';

/** Tensors to read together: few requests, and little memory. */
const READ_BYTE_LENGTH = 2 ** 24;

/** Shorter tensors are copied in less time than asking whether they are in memory takes. */
const MAPPED_BYTE_LENGTH = 2 ** 16;

type NamedLength = Pick<TensorEntry, 'name' | 'byteLength'>;

/** Several models by their folders: an open `Pipeline`. */
export interface ComparablePipeline {
  /** The models by their folders. */
  readonly models: ReadonlyMap<string, TensorSource>;
}

/** The models by their folders; a checkpoint is one without a folder. */
export function modelsOf(
  name: string,
  source: TensorSource | ComparablePipeline,
): ReadonlyMap<string, TensorSource> {
  const { models, tensors } = Object(source) as Partial<ComparablePipeline & TensorSource>;
  if (typeof models?.keys === 'function') return models;
  if (typeof tensors === 'function') return new Map([['', source as TensorSource]]);
  throw argumentTypeError(name, 'an open checkpoint or pipeline', source);
}

/**
 * Tensors one after the other: short ones are read together, off the event loop. Local ones that are long, or in the
 * page cache, are views of the file.
 */
export async function* tensorsInTurn(
  source: TensorSource,
  entries: readonly NamedLength[],
  signal: AbortSignal | undefined,
): AsyncGenerator<Tensor, void, void> {
  const lengthAt = (at: number): number => entries[at]?.byteLength ?? Number.POSITIVE_INFINITY;
  const local = isLocal(source) ? source : null;
  for (let begin = 0; begin < entries.length; ) {
    const entry = entries[begin] as NamedLength;
    const view = local === null ? undefined : viewOf(local, entry);
    if (view !== undefined) {
      yield view;
      begin++;
      continue;
    }
    let end = begin;
    let byteLength = 0;
    do byteLength += lengthAt(end++);
    while (byteLength + lengthAt(end) <= READ_BYTE_LENGTH);
    const names = entries.slice(begin, end).map(({ name }) => name);
    yield* (await source.readTensors(names, { signal })).values();
    begin = end;
  }
}

/** A checkpoint whose tensors are at hand. */
interface LocalSource extends TensorSource {
  readonly local: true;
  getTensor(name: string): Tensor;
  residency(name: string): number | null;
}

/**
 * A tensor to use where it is: reading it first takes too much memory, or saves no wait for the disk. Undefined for any
 * other; how much is in memory of what computed tensors need is unknown.
 */
function viewOf(source: LocalSource, { name, byteLength }: NamedLength): Tensor | undefined {
  if (byteLength > READ_BYTE_LENGTH) return source.getTensor(name);
  if (byteLength < MAPPED_BYTE_LENGTH) return undefined;
  const tensor = source.getTensor(name);
  if (TensorOf.sourceOf(tensor).isComputed) return undefined;
  return (source.residency(name) ?? 0) >= byteLength ? tensor : undefined;
}

function isLocal(source: TensorSource): source is LocalSource {
  return (source as Partial<LocalSource>).local === true;
}
