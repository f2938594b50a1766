/** A tensor with another name, of which only a part is written, or with the rows of attention heads reordered. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { Dtype } from '../../header/dtype.js';
import { matrixOf, tensorByteLength } from '../../header/tensor-spec.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import type { SourceTensor } from '../checkpoint/source.js';
import type { ComputedPayload, FilePayload, MemoryPayload } from '../input/tensor-input.js';
import { payloadFill } from '../save/verifying-fill.js';
import type { SourceTensorInfo } from './source.js';

/** What becomes of a stored tensor. */
interface Rewriting {
  readonly name: string;
  readonly shape: readonly number[];
  /** Which part of this shape it is, in the order of the bytes. */
  readonly part: number;
  /** The attention heads whose rows are reordered; null to keep the order. */
  readonly heads: number | null;
}

/** Bytes to take from a payload. */
type Payload = ComputedPayload | FilePayload | MemoryPayload;

export class RewrittenRows implements SourceTensor<SourceTensorInfo> {
  readonly name: string;
  readonly info: SourceTensorInfo & { readonly dtype: Dtype };
  readonly valueDtype?: Dtype;
  readonly stored: SourceTensor<SourceTensorInfo>;
  readonly #rewriting: Rewriting;

  constructor(stored: SourceTensor<SourceTensorInfo>, rewriting: Rewriting) {
    const { name, shape } = rewriting;
    this.name = name;
    this.info = Object.freeze({ ...stored.info, shape: Object.freeze([...shape]) });
    if (stored.valueDtype !== undefined) this.valueDtype = stored.valueDtype;
    this.stored = stored;
    this.#rewriting = rewriting;
  }

  get memory(): TensorMemory {
    const { name, info, stored } = this;
    if (this.#isWhole) return { ...stored.memory, name };
    const { dtype, shape } = info;
    const storageByteLength = tensorByteLength({ dtype, shape });
    return { name, dtype, shape, storage: this, storageByteLength, byteOffset: 0 };
  }

  get payload(): Payload {
    const { payload } = this.stored;
    if (this.#isWhole) return payload;
    const { shape, part, heads } = this.#rewriting;
    const dtype = this.valueDtype ?? this.info.dtype;
    const byteLength = tensorByteLength({ dtype, shape });
    const whole = tensorByteLength({ dtype, shape: this.stored.info.shape });
    const stored = payload.kind === 'computed' ? payload.fill : payloadFill(payload, whole);
    const begin = part * byteLength;
    const ofPart: AsyncFill = (target, at, signal) => stored(target, begin + at, signal);
    const { rows } = matrixOf(shape.length === 1 ? [...shape, 1] : shape);
    const fill =
      heads === null
        ? ofPart
        : interleavedHalves(ofPart, {
            heads,
            rows: rows / heads,
            rowByteLength: byteLength / rows,
          });
    const verify = (): void => {
      if (payload.kind === 'file') payload.storage.verify();
      else payload.verify();
    };
    return { kind: 'computed', fill, verify, storage: payload.storage };
  }

  get #isWhole(): boolean {
    const { heads, shape } = this.#rewriting;
    return heads === null && shape.length === this.stored.info.shape.length;
  }
}

/** The rows of attention heads. */
interface Heads {
  readonly heads: number;
  /** Rows of a head. */
  readonly rows: number;
  readonly rowByteLength: number;
}

/**
 * Fills rows in the order of Transformers: of each head first the rows at even positions, which are the first half for
 * rotary embeddings, then those at odd positions. Reads one head at a time.
 */
function interleavedHalves(read: AsyncFill, { rows, rowByteLength }: Heads): AsyncFill {
  const headByteLength = rows * rowByteLength;
  let head = { number: -1, bytes: new Uint8Array(0) };
  let last: Promise<void> = Promise.resolve();
  const fill = async (target: Uint8Array, begin: number, signal?: AbortSignal): Promise<void> => {
    for (let at = 0; at < target.length; ) {
      const position = begin + at;
      const number = Math.floor(position / headByteLength);
      if (head.number !== number) {
        const bytes = head.number === -1 ? new Uint8Array(headByteLength) : head.bytes;
        head = { number: -1, bytes };
        await read(bytes, number * headByteLength, signal);
        head.number = number;
      }
      const inHead = position - number * headByteLength;
      const row = Math.floor(inHead / rowByteLength);
      const inRow = inHead % rowByteLength;
      const half = rows / 2;
      const stored = row < half ? 2 * row : 2 * (row - half) + 1;
      const from = stored * rowByteLength + inRow;
      const length = Math.min(rowByteLength - inRow, target.length - at);
      target.set(head.bytes.subarray(from, from + length), at);
      at += length;
    }
  };
  return (target, begin, signal) => {
    const filled = last.then(() => fill(target, begin, signal));
    // A failure ends the writing; the pieces that were asked for before it are still filled.
    last = filled.catch(() => {});
    return filled;
  };
}
