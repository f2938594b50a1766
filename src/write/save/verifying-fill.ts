/** Compares the bytes of a tensor with the digest that its file declares, while they go by. */

import { createHash } from 'node:crypto';
import { digestMismatch } from '../../header/tensor-digests.js';
import { storageFill } from '../../platform/storage/storage-fill.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import type { DeclaredDigest } from '../../tensor/storage/declared-digests.js';
import { allSettled } from '../../work/all-settled.js';
import type { FilePayload, MemoryPayload } from '../input/tensor-input.js';

/** A tensor with a digest. */
interface VerifiedTensor extends DeclaredDigest {
  readonly byteLength: number;
  /** Whether the caller has changed the bytes, which then need not match. */
  readonly isChanged?: () => boolean;
}

/**
 * Fills as `fill` does, and throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` with the last bytes if the digest
 * differs. Pieces must be asked for in order, from the first byte on.
 */
export function verifyingFill(
  fill: AsyncFill,
  { byteLength, hex, context, isChanged = () => false }: VerifiedTensor,
): AsyncFill {
  let hash = createHash('sha256');
  let before: Promise<unknown> | undefined;
  return (target, position, signal) => {
    if (position === 0) {
      hash = createHash('sha256');
      before = undefined;
    }
    const piece = allSettled([fill(target, position, signal), before]).then(() => {
      hash.update(target);
      if (position + target.length < byteLength) return;
      const found = hash.digest('hex');
      if (found !== hex && !isChanged()) throw digestMismatch(hex, found, context);
    });
    before = piece;
    return piece;
  };
}

/**
 * Fills pieces with the bytes of a file or of memory, and compares them with the digest that they must have, if any.
 */
export function payloadFill(payload: FilePayload | MemoryPayload, byteLength: number): AsyncFill {
  const { digest } = payload;
  const fill = payload.kind === 'file' ? fileFill(payload) : memoryFill(payload);
  return digest === undefined ? fill : verifyingFill(fill, { ...digest, byteLength });
}

function fileFill({ storage, position, checksum }: FilePayload): AsyncFill {
  return checksum?.fill ?? storageFill(storage, position);
}

/** Fills pieces with the bytes of memory, or computes them. */
export function memoryFill(memory: MemoryPayload): AsyncFill {
  return (
    memory.fill ?? ((target, begin) => target.set(memory.window(begin, begin + target.length)))
  );
}
