/** Compares stored tensors with the digests that their files declare, while their bytes are read. */

import { createHash, type Hash } from 'node:crypto';
import type { TensorInfo } from '../../file/source/tensor-info.js';
import { digestMismatch } from '../../header/tensor-digests.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { DeclaredDigest } from '../../tensor/storage/declared-digests.js';

/** A stored tensor. */
export interface Stored {
  readonly name: string;
  readonly info: TensorInfo;
}

/** Bytes of a tensor, from `begin` on. */
export interface StoredPart<Tensor extends Stored> {
  readonly tensor: Tensor;
  readonly begin: number;
  readonly byteLength: number;
}

/** Returns the declared digest of a tensor; undefined without one. */
export type DigestOf<Tensor extends Stored> = (tensor: Tensor) => DeclaredDigest | undefined;

/** The reads of a tensor from its first byte on, without gaps. */
interface Run {
  readonly hash: Hash;
  /** Bytes that were requested. */
  end: number;
  /** Settles when the bytes of the last read are hashed. */
  last: Promise<unknown>;
}

/** The digests of the tensors of one source. */
export class StoredDigests<Tensor extends Stored> {
  readonly #digestOf: DigestOf<Tensor>;
  readonly #runs = new Map<string, Run>();
  readonly #compared = new Set<string>();

  constructor(digestOf: DigestOf<Tensor>) {
    this.#digestOf = digestOf;
  }

  /** Whether nothing is left to compare: all bytes matched, or the file declares no digest. */
  isSettled(tensor: Tensor): boolean {
    return this.#compared.has(tensor.name) || this.#digestOf(tensor) === undefined;
  }

  /**
   * Returns the same bytes once they are hashed. Reads that continue the one before are compared with the digest at the
   * end of the tensor; any other read begins again at byte 0 or is not compared.
   *
   * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` in place of the last bytes
   */
  async follow(
    { tensor, begin, byteLength }: StoredPart<Tensor>,
    bytes: Promise<Uint8Array<ArrayBuffer>>,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const { name, info } = tensor;
    const digest = this.#digestOf(tensor);
    if (digest === undefined) return await bytes;
    if (begin === 0) {
      this.#runs.set(name, { hash: createHash('sha256'), end: 0, last: Promise.resolve() });
    }
    const run = this.#runs.get(name);
    if (run?.end !== begin) {
      this.#runs.delete(name);
      return await bytes;
    }
    run.end += byteLength;
    const isLast = run.end === tensorByteLength(info);
    if (isLast) this.#runs.delete(name);
    const hashed = Promise.all([bytes, run.last]).then(([read]) => {
      run.hash.update(read);
      return read;
    });
    run.last = hashed;
    const read = await hashed;
    if (!isLast) return read;
    const found = run.hash.digest('hex');
    if (found !== digest.hex) throw digestMismatch(digest.hex, found, digest.context);
    this.#compared.add(name);
    return read;
  }
}
