/** Tensors that were selected, as they are written. */

import type { AnyEntry } from '../checkpoint/write/layout.js';
import type { ForeignTensor } from '../foreign/foreign-tensor.js';
import type { Dtype } from '../format/dtype.js';
import { elementCountOf } from '../format/tensor-spec.js';
import { madePayload } from '../save/tensor-input.js';
import { byteLengthOf, CastMemory, castFill } from '../selection/cast-bytes.js';
import { counterOf } from '../selection/cast-report.js';
import type { Selected } from '../selection/select.js';
import type { TensorMemory } from '../shards/shared-tensors.js';
import { storageFill } from '../storage/storage-fill.js';
import type { SourceTensor } from './source.js';
import type { SourceBytes } from './source-bytes.js';

/** A tensor to be written, and where it lies in the source, to find those that share bytes. */
export interface ConvertedTensor {
  readonly entry: AnyEntry;
  readonly memory: TensorMemory;
  readonly facts: ForeignTensor;
}

/**
 * The tensors under their new names. `overflowed` counts elements that are too large for the dtype of a cast,
 * by name, while they are written.
 */
export function convertedTensors(
  selected: readonly Selected<SourceTensor>[],
  source: SourceBytes,
  overflowed: Map<string, number>,
): ConvertedTensor[] {
  const castStorages = new CastStorages();
  const castMemory = new CastMemory();
  return selected.map(({ tensor, name, cast }) => {
    const { facts } = tensor;
    const { shape, storage } = facts;
    const dtype = cast?.to ?? facts.dtype;
    let payload = source.payloadOf(facts);
    if (cast !== null) {
      const fill =
        payload.kind === 'made' ? payload.fill : storageFill(payload.storage, payload.position);
      const counter = counterOf(overflowed, name);
      payload = madePayload(facts.data.storage, castFill(fill, cast, castMemory, counter));
    }
    const byteLength = byteLengthOf(dtype, elementCountOf(shape));
    return {
      entry: { name, dtype, shape, byteLength, payload },
      memory: { ...facts, name, storage: castStorages.of(storage, cast?.to) },
      facts,
    };
  });
}

/** Tensors that are cast share bytes only with those that are cast to the same dtype. */
class CastStorages {
  readonly #storages = new Map<unknown, Map<Dtype, object>>();

  of(storage: unknown, to: Dtype | undefined): unknown {
    if (to === undefined) return storage;
    const casts = this.#storages.get(storage) ?? new Map<Dtype, object>();
    this.#storages.set(storage, casts);
    const cast = casts.get(to) ?? {};
    casts.set(to, cast);
    return cast;
  }
}
