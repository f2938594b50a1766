/** Receives a file by one request for all of it, from a server that answers no ranges. */

import { writeViews } from '../../platform/io/file-writes.js';
import type { Transfer } from '../../work/transfer.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import type { HttpFile, KnownFile, WholeFileSink } from '../http-file.js';
import type { DownloadItemInfo, ReceivedFile } from './download-item.js';
import { beginGrowingHash, type GrowingHash } from './growing-hash.js';

/** Written at a time. `fetch` returns pieces of up to 64 KiB. */
const BLOCK_BYTE_LENGTH = 2 ** 20;

/**
 * Fills the temporary file from its start. The caller compares the hash.
 *
 * @throws RemoteError, FileChangedError; errors of the system; the signal's reason
 */
export async function receiveWhole(
  { whole, byteLength, hash }: DownloadItemInfo & { readonly whole: HttpFile },
  target: Replacement,
  transfer: Transfer,
  signal: AbortSignal,
): Promise<ReceivedFile> {
  const known = { byteLength, isHashed: hash !== null };
  const sink = new FileSink(target, () => beginGrowingHash(hash, byteLength, target), transfer);
  try {
    await whole.receiveWhole(known, sink, signal);
    return { hash: await sink.digest(), downloadedBytes: byteLength, reusedBytes: 0 };
  } finally {
    await sink.end();
  }
}

/**
 * Receives a file of known length into memory.
 *
 * @throws RemoteError, FileChangedError; the signal's reason
 */
export async function readWhole(
  file: HttpFile,
  known: KnownFile,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(known.byteLength);
  let received = 0;
  const sink: WholeFileSink = {
    begin: async () => {
      received = 0;
    },
    take: (piece) => {
      bytes.set(piece, received);
      received += piece.length;
    },
  };
  await file.receiveWhole(known, sink, signal);
  return bytes;
}

/** Writes and hashes a file in blocks. */
class FileSink implements WholeFileSink {
  readonly #target: Replacement;
  readonly #beginHash: () => GrowingHash;
  readonly #transfer: Transfer;
  readonly #block = new Uint8Array(BLOCK_BYTE_LENGTH);
  #filled = 0;
  #written = 0;
  #counted = 0;
  #hash: GrowingHash | undefined;

  constructor(target: Replacement, beginHash: () => GrowingHash, transfer: Transfer) {
    this.#target = target;
    this.#beginHash = beginHash;
    this.#transfer = transfer;
  }

  async begin(): Promise<void> {
    await this.end();
    this.#target.truncate(0);
    this.#transfer.advance(-this.#counted);
    this.#filled = this.#written = this.#counted = 0;
    this.#hash = this.#beginHash();
  }

  async take(bytes: Uint8Array): Promise<void> {
    for (let taken = 0; taken < bytes.length; ) {
      const piece = bytes.subarray(taken, taken + BLOCK_BYTE_LENGTH - this.#filled);
      this.#block.set(piece, this.#filled);
      this.#filled += piece.length;
      taken += piece.length;
      if (this.#filled === BLOCK_BYTE_LENGTH) await this.#flush();
    }
    this.#counted += bytes.length;
    this.#transfer.advance(bytes.length);
  }

  /** The hash of all bytes. */
  async digest(): Promise<string> {
    await this.#flush();
    return await (this.#hash as GrowingHash).digest();
  }

  /** Ends the hash. */
  async end(): Promise<void> {
    await this.#hash?.end();
    this.#hash = undefined;
  }

  async #flush(): Promise<void> {
    const bytes = this.#block.subarray(0, this.#filled);
    if (bytes.length === 0) return;
    await writeViews(this.#target, [bytes], this.#written);
    this.#hash?.add(bytes);
    this.#written += bytes.length;
    this.#filled = 0;
  }
}
