/** Sends bytes of an open file, piece by piece as the reader takes them, in little memory for any number of readers. */

import type { ServerResponse } from 'node:http';
import { truncatedError } from '../../platform/io/opened-file.js';
import { readAsync } from '../../platform/io/pool-calls.js';
import type { ByteRange } from './conditions.js';
import type { OpenedVersion } from './named-file.js';

/** Large pieces send a gigabyte a second. */
const LARGE_BYTE_LENGTH = 256 * 2 ** 10;
/** Most large pieces at a time. */
const LARGE_COUNT = 16;
/** Pieces of the readers beyond: 256 of them hold 4 MB. */
const SMALL_BYTE_LENGTH = 16 * 2 ** 10;
/** Most small pieces that are kept for the next reader. */
const KEPT_SMALL_COUNT = 64;

/** The memory of pieces, which is used again and again: that of new buffers would wait for the collector. */
export class PieceMemory {
  readonly #large: Buffer[] = [];
  readonly #small: Buffer[] = [];
  #largeCount = 0;

  /** A piece that nobody else has. */
  take(): Buffer {
    const kept = this.#large.pop();
    if (kept !== undefined) return kept;
    if (this.#largeCount < LARGE_COUNT) {
      this.#largeCount++;
      return Buffer.allocUnsafeSlow(LARGE_BYTE_LENGTH);
    }
    return this.#small.pop() ?? Buffer.allocUnsafeSlow(SMALL_BYTE_LENGTH);
  }

  /** Takes a piece back. */
  give(piece: Buffer): void {
    if (piece.length === LARGE_BYTE_LENGTH) this.#large.push(piece);
    else if (this.#small.length < KEPT_SMALL_COUNT) this.#small.push(piece);
  }
}

/** The connection of an answer. */
export class Outlet {
  readonly #response: ServerResponse;
  #onEnd = (): void => {};

  constructor(response: ServerResponse) {
    this.#response = response;
    // Of a connection that ends, writes may never be called back. It has let go of their bytes by then.
    response.once('close', () => this.#onEnd());
  }

  /** Writes bytes. Resolves to true when the system has taken them, to false when the connection has ended. */
  write(bytes: Uint8Array): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#response.closed) return resolve(false);
      this.#onEnd = () => resolve(false);
      this.#response.write(bytes, (error) => resolve(error === undefined || error === null));
    });
  }

  /**
   * Writes a range of a file. A reader that takes nothing holds one piece of memory. Resolves to false when the reader
   * has left.
   *
   * @throws FileChangedError when the file changes meanwhile, so that no answer has bytes of two versions; errors of
   *   reading
   */
  async send(
    file: OpenedVersion,
    { begin, end }: ByteRange,
    memory: PieceMemory,
  ): Promise<boolean> {
    for (const bytes of file.virtual?.read(begin, end) ?? []) {
      file.requireSame();
      if (!(await this.write(bytes))) return false;
    }
    let at = file.virtual === undefined ? begin : end;
    while (at < end) {
      const piece = memory.take();
      try {
        const length = Math.min(piece.length, end - at);
        const { bytesRead } = await readAsync(file, piece, 0, length, at);
        if (bytesRead === 0) throw truncatedError(file.path, end, at);
        file.requireSame();
        if (!(await this.write(piece.subarray(0, bytesRead)))) return false;
        at += bytesRead;
      } finally {
        memory.give(piece);
      }
    }
    return true;
  }
}

/**
 * Sends a range as the body of an answer whose head declares its length, and ends the answer. Returns early when the
 * reader leaves.
 *
 * @throws As `Outlet.send`. The answer has not ended then
 */
export async function sendBytes(
  response: ServerResponse,
  file: OpenedVersion,
  range: ByteRange,
  memory: PieceMemory,
): Promise<void> {
  if (await new Outlet(response).send(file, range, memory)) response.end();
}
