/** Copies tensors of files into a long file on separate threads, which read every byte back and compare checksums. */

import type { AcquirableFile } from '../../platform/io/acquirable-file.js';
import { JoinedCrc32 } from '../../platform/io/combined-crc32.js';
import { type CheckedCopy, CopyingThread } from '../../platform/io/copying-thread.js';
import type { WrittenFile } from '../../platform/io/file-writes.js';
import { type FileRange, type MergeLimits, merge, type Part } from '../../work/byte-ranges.js';
import { InOrder } from '../../work/in-order.js';
import { Slots } from '../../work/slots.js';
import type { PieceMover } from '../../work/transfer.js';
import type { DeclaredChecksum } from '../input/tensor-input.js';
import { differentByte } from './filled-writes.js';

const THREADS = 2;

/** Bytes for a thread at once: each message to it costs about 50 µs, and an abort waits for it. */
const PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** A piece holds as many files open. */
const MAX_PARTS = 256;

/** A tensor of a file, and its place in the new file. */
export interface CopiedTensor extends FileRange {
  readonly tensor: string | undefined;
  readonly source: AcquirableFile;
  /** Of its first byte in that file. */
  readonly sourcePosition: number;
  readonly checksum: DeclaredChecksum | undefined;
}

/** Short neighbours are joined. */
const PIECE_LIMITS: MergeLimits<CopiedTensor> = {
  maxByteLength: PIECE_BYTE_LENGTH,
  maxParts: MAX_PARTS,
};

/** The threads, which are started when they are first needed. */
export class CheckedCopies {
  readonly #target: WrittenFile;
  readonly #threads: CopyingThread[] = [];
  #next = 0;

  /** The target must be open for reading, too, until `end`. */
  constructor(target: WrittenFile) {
    this.#target = target;
  }

  /**
   * Copies tensors, in the order of the file.
   *
   * @param onWritten is called for each piece once it is written
   * @throws SafetensorsError `SAFETENSORS_VERIFICATION_FAILED` for a byte that was read back as another one; the error
   *   of a checksum
   * @throws FileChangedError when a source ends earlier; errors of the system, with the path of source or target
   */
  async write(
    tensors: Iterable<CopiedTensor>,
    transfer: PieceMover,
    onWritten: (position: number, byteLength: number) => void,
  ): Promise<void> {
    // Two pieces for each thread: the next one waits there.
    const slots = new Slots(2 * THREADS);
    // The checksums of a tensor's parts are joined in their order.
    const inOrder = new InOrder();
    const joined = new JoinedCrc32();
    const addPart = ({ range, begin, end }: Part<CopiedTensor>, found: number): void => {
      const crc32 = joined.add(begin, end, found);
      if (end === range.byteLength) range.checksum?.require(crc32);
    };
    await transfer.run(merge(tensors, PIECE_LIMITS), slots, async (piece) => {
      const { position, byteLength, parts } = piece;
      await inOrder.use(this.#copy(parts), (crc32s) => {
        for (const [i, part] of parts.entries()) addPart(part, crc32s[i] as number);
      });
      onWritten(position, byteLength);
      return byteLength;
    });
  }

  /** Ends the threads; they use no descriptors afterwards. */
  async end(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.end()));
  }

  async #copy(parts: readonly Part<CopiedTensor>[]): Promise<readonly number[]> {
    const at = this.#next++ % THREADS;
    this.#threads[at] ??= new CopyingThread();
    const copies: CheckedCopy[] = [];
    try {
      for (const { range, begin, end } of parts) {
        const { source, sourcePosition, position } = range;
        const file = { fd: source.acquire(), path: source.path };
        const places = { position: sourcePosition + begin, targetPosition: position + begin };
        copies.push({ file, ...places, byteLength: end - begin });
      }
      const thread = this.#threads[at] as CopyingThread;
      const { crc32s, difference } = await thread.copy(this.#target, copies);
      if (difference === undefined) return crc32s;
      const { range, begin } = parts[difference.copy] as Part<CopiedTensor>;
      throw differentByte(this.#target.path, range.tensor, begin + difference.byte);
    } finally {
      for (const { range } of parts.slice(0, copies.length)) range.source.release();
    }
  }
}
