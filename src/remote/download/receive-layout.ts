/** Receives a file of chosen tensors: the writer of checkpoints writes it from remote bytes. */

import { statsOf } from '../../platform/io/file-calls.js';
import { Slots } from '../../tensor/pieces.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import { BorrowedFiles } from '../../write/save/source-files.js';
import { type WritableLayout, writeLayout } from '../../write/save/tensor-writes.js';
import { beginHash, hashStart } from './file-hash.js';
import { OrderedBytes } from './ordered-bytes.js';
import { notedHash } from './partial-files.js';
import type { DownloadScope, ReceivedFile, RemoteRange, WantedFacts } from './wanted-file.js';

/** Pieces of 1 MiB to cast and write at a time. */
const PIECES_AT_ONCE = 4;

/** A file to be written. */
export interface RemoteLayout extends WantedFacts {
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
 * @param place the file's path, beside which its record lies
 * @throws RemoteError, FileChangedError; errors of the system; the signal's reason
 */
export async function receiveLayout(
  { layout, ranges, takeFrom, ...file }: RemoteLayout,
  target: Replacement,
  place: string,
  { transfer, signal }: Pick<DownloadScope, 'transfer' | 'signal'>,
): Promise<ReceivedFile> {
  const { byteLength, version } = file;
  if (version !== null) {
    const size = Number(statsOf(target).size);
    const noted = size === byteLength ? await notedHash(place, file) : undefined;
    if (noted !== undefined) {
      const hash = beginHash(null, byteLength);
      await hashStart(hash, target, byteLength, signal);
      if (hash.digest('hex') === noted) {
        transfer.advance(byteLength);
        return { hash: noted, receivedByteLength: 0, presentByteLength: byteLength };
      }
    }
    if (size > 0) target.truncate(0);
  }
  // Only a known version can be recognized later, so only then record the hash.
  const hash = version === null ? undefined : beginHash(null, byteLength);
  try {
    await OrderedBytes.use(ranges, signal, async (bytes) => {
      takeFrom(bytes);
      await writeLayout(target, layout, new BorrowedFiles([]), transfer, {
        slots: new Slots(PIECES_AT_ONCE),
        onBytes: hash && ((written) => hash.update(written)),
      });
    });
    return {
      hash: hash?.digest('hex') ?? '',
      receivedByteLength: byteLength,
      presentByteLength: 0,
    };
  } catch (error) {
    target.giveUp();
    throw error;
  }
}
