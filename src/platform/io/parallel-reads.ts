/** Reads many ranges of a file, each into its own buffer: in large pieces, several at a time. */

import { allocate } from '../../errors/out-of-memory.js';
import { type FileRange, merge } from '../../work/byte-ranges.js';
import { Slots } from '../../work/slots.js';
import type { Transfer } from '../../work/transfer.js';
import { MAX_VIEWS, withoutFirst } from './byte-views.js';
import { truncatedError } from './opened-file.js';
import { type ReadFile, readvAsync } from './pool-calls.js';

/** Bytes per read. Measured with 2 to 16 MiB: longer reads are not faster and delay other work. */
const READ_BYTE_LENGTH = 4 * 2 ** 20;

/** Leaves one of the pool's four threads to the rest of the program. */
const READS_AT_ONCE = 3;

/** Slots shared by all files of the thread. */
const slots = new Slots(READS_AT_ONCE);

/** The place of a tensor's bytes. */
export interface TensorRange extends FileRange {
  readonly name: string;
}

/** A range whose memory is being filled. */
class Arrival<Range extends TensorRange> implements FileRange {
  readonly range: Range;
  missing: number;
  readonly #path: string | undefined;
  #memory: Uint8Array<ArrayBuffer> | undefined;

  constructor(range: Range, path: string | undefined) {
    this.range = range;
    this.missing = range.byteLength;
    this.#path = path;
  }

  get position(): number {
    return this.range.position;
  }

  get byteLength(): number {
    return this.range.byteLength;
  }

  /** Made right before reading. */
  get memory(): Uint8Array<ArrayBuffer> {
    const { name, byteLength } = this.range;
    this.#memory ??= allocate(Uint8Array, byteLength, { path: this.#path, tensor: name });
    return this.#memory;
  }
}

function* arrivals<Range extends TensorRange>(
  ranges: Iterable<Range>,
  path: string | undefined,
): Generator<Arrival<Range>, void, void> {
  for (const range of ranges) if (range.byteLength > 0) yield new Arrival(range, path);
}

/** Fills the views with the bytes from `position` on. */
async function readViews(
  file: ReadFile,
  all: readonly Uint8Array[],
  { position: begin, byteLength }: FileRange,
): Promise<void> {
  let position = begin;
  const end = begin + byteLength;
  for (let views = all; views.length > 0; ) {
    const { bytesRead } = await readvAsync(file, views, position);
    if (bytesRead === 0) throw truncatedError(file.path, end, position);
    position += bytesRead;
    views = withoutFirst(views, bytesRead);
  }
}

/**
 * Reads the ranges, best given in the order of the file. `onRead` receives each with its buffer as soon as that is
 * full; empty ranges are left out. The descriptor must stay open until the promise settles.
 *
 * @throws FileChangedError when the file ends before a range does
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY`
 */
export async function readRanges<Range extends TensorRange>(
  file: ReadFile,
  ranges: Iterable<Range>,
  transfer: Transfer,
  onRead: (range: Range, buffer: ArrayBuffer) => void,
): Promise<void> {
  const limits = { maxByteLength: READ_BYTE_LENGTH, maxParts: MAX_VIEWS };
  await transfer.run(merge(arrivals(ranges, file.path), limits), slots, async (piece) => {
    const views = piece.parts.map(({ range, begin, end }) => range.memory.subarray(begin, end));
    await readViews(file, views, piece);
    for (const { range: arrival, begin, end } of piece.parts) {
      arrival.missing -= end - begin;
      if (arrival.missing === 0) onRead(arrival.range, arrival.memory.buffer);
    }
    return piece.byteLength;
  });
}
