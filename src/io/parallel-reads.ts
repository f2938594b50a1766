/** Reads many ranges of a file, each into its own buffer: in large pieces, several at a time. */

import { allocate } from '../errors/out-of-memory.js';
import { MAX_VIEWS, withoutFirst } from './byte-views.js';
import { cutShort, type FileRange } from './opened-file.js';
import { type ReadFile, readvAsync } from './pool-calls.js';
import { Slots, type Transfer } from './transfer.js';

/** Bytes per read. Measured with 2 to 16 MiB: longer reads are not faster and delay other work. */
const READ_BYTE_LENGTH = 4 * 2 ** 20;

/** Leaves one of the pool's four threads to the rest of the program. */
const READS_AT_ONCE = 3;

/** Shared by all files of the thread. */
const slots = new Slots(READS_AT_ONCE);

/** Where the bytes of a tensor are. */
export interface TensorRange extends FileRange {
  readonly name: string;
}

/** A range whose memory is being filled. */
interface Arrival<Range> {
  readonly range: Range;
  readonly memory: Uint8Array<ArrayBuffer>;
  missing: number;
}

/** Parts of buffers that one call fills: neighbours in the file. */
interface Batch<Range> {
  readonly position: number;
  readonly views: Uint8Array[];
  readonly arrivals: Arrival<Range>[];
  byteLength: number;
}

/** Makes each buffer only when its turn to be read has come. */
function* batches<Range extends TensorRange>(
  file: ReadFile,
  ranges: Iterable<Range>,
): Generator<Batch<Range>, void, void> {
  let batch: Batch<Range> | undefined;
  for (const range of ranges) {
    const { name, byteLength } = range;
    const memory = allocate(Uint8Array, byteLength, { path: file.path, tensor: name });
    const arrival = { range, memory, missing: byteLength };
    for (let done = 0; done < byteLength; ) {
      const position = range.position + done;
      if (batch !== undefined && !hasRoom(batch, position)) {
        yield batch;
        batch = undefined;
      }
      batch ??= { position, views: [], arrivals: [], byteLength: 0 };
      const length = Math.min(byteLength - done, READ_BYTE_LENGTH - batch.byteLength);
      batch.views.push(memory.subarray(done, done + length));
      batch.arrivals.push(arrival);
      batch.byteLength += length;
      done += length;
    }
  }
  if (batch !== undefined) yield batch;
}

function hasRoom(batch: Batch<unknown>, position: number): boolean {
  return (
    batch.byteLength < READ_BYTE_LENGTH &&
    batch.views.length < MAX_VIEWS &&
    batch.position + batch.byteLength === position
  );
}

async function readBatch(file: ReadFile, batch: Batch<unknown>): Promise<void> {
  let { position } = batch;
  const end = position + batch.byteLength;
  for (let views = batch.views; views.length > 0; ) {
    const { bytesRead } = await readvAsync(file, views, position);
    if (bytesRead === 0) throw cutShort(file.path, end, position);
    position += bytesRead;
    views = withoutFirst(views, bytesRead);
  }
}

/**
 * Reads the ranges, best given in the order of the file. `onRead` gets each with its buffer as soon as
 * that is full; ranges of no bytes are left out. The descriptor must stay open until the promise
 * settles.
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
  await transfer.run(batches(file, ranges), slots, async (batch) => {
    await readBatch(file, batch);
    for (const [i, arrival] of batch.arrivals.entries()) {
      arrival.missing -= batch.views[i]?.byteLength ?? 0;
      if (arrival.missing === 0) onRead(arrival.range, arrival.memory.buffer);
    }
    return batch.byteLength;
  });
}
