/** Receives a file of chosen tensors: the writer of checkpoints writes it from remote bytes. */

import { statsOf } from '../../platform/io/file-calls.js';
import { Slots } from '../../work/slots.js';
import { untilAborted } from '../../work/until-aborted.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import { LeasedFiles } from '../../write/save/leased-files.js';
import type { WritableLayout } from '../../write/save/tensor-writes.js';
import { writeLayout } from '../../write/save/write-layout.js';
import type {
  DownloadItemInfo,
  DownloadScope,
  ReceivedFile,
  RemoteRange,
} from './download-item.js';
import { beginGrowingHash, type GrowingHash } from './growing-hash.js';
import { OrderedBytes } from './ordered-bytes.js';
import { notedHash } from './partial-files.js';

/** Pieces of 1 MiB to cast and write at a time. */
const PIECES_AT_ONCE = 4;

/** A file to be written. */
interface RemoteLayout extends DownloadItemInfo {
  readonly layout: WritableLayout;
  /** Bytes of its tensors in the source, in the order of the new file. */
  readonly ranges: readonly RemoteRange[];
  /** Called with the reader of the tensors' bytes before the first is taken. */
  takeFrom(bytes: OrderedBytes): void;
}

/**
 * Fills the temporary file. Keeps one that an earlier download has finished and whose hash matches its record.
 * Otherwise writes it from the start, and deletes it on failure.
 *
 * @param place the file's path, next to which its record lies
 * @throws RemoteError, FileChangedError; errors of the system; the signal's reason
 */
export async function receiveLayout(
  { layout, ranges, takeFrom, ...file }: RemoteLayout,
  target: Replacement,
  place: string,
  { transfer, signal }: Pick<DownloadScope, 'transfer' | 'signal'>,
): Promise<ReceivedFile> {
  const { byteLength, version } = file;
  // Only a known version can be recognized later, so only then is there a hash.
  if (version === null) {
    await write(undefined);
    return { hash: '', downloadedBytes: byteLength, reusedBytes: 0 };
  }
  const size = Number(statsOf(target).size);
  const noted = size === byteLength ? await notedHash(place, file) : undefined;
  if (
    noted !== undefined &&
    (await hashWith(async (hash) => await hash.addStart(size, signal))) === noted
  ) {
    transfer.advance(byteLength);
    return { hash: noted, downloadedBytes: 0, reusedBytes: byteLength };
  }
  if (size > 0) target.truncate(0);
  return { hash: await hashWith(write), downloadedBytes: byteLength, reusedBytes: 0 };

  /** The hash of the file after the work, which adds to it. */
  async function hashWith(work: (hash: GrowingHash) => Promise<unknown>): Promise<string> {
    const hash = beginGrowingHash(null, byteLength, target);
    try {
      await work(hash);
      return await untilAborted(hash.digest(), signal);
    } finally {
      await hash.end();
    }
  }

  async function write(hash: GrowingHash | undefined): Promise<void> {
    try {
      await OrderedBytes.use(ranges, signal, async (bytes) => {
        takeFrom(bytes);
        await writeLayout(target, layout, new LeasedFiles([]), transfer, {
          slots: new Slots(PIECES_AT_ONCE),
          onBytes: hash && ((written) => hash.add(written)),
        });
      });
    } catch (error) {
      target.giveUp();
      throw error;
    }
  }
}
