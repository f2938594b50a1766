/** Receives the files of a plan, a few at a time. */

import { Slots } from '../io/pieces.js';
import type { Transfer } from '../io/transfer.js';
import type { ReceivedFile } from './receive.js';
import type { WantedFile } from './wanted-file.js';

/** Small files are mostly latency, which passes beside others; each file has memory for pieces of its own. */
const FILES_AT_ONCE = 3;

/** How much came from where, of all files. */
export interface ReceivedBytes {
  receivedByteLength: number;
  presentByteLength: number;
}

/** What a call of `download` is told and shares between its files. */
export interface DownloadScope {
  readonly transfer: Transfer;
  /** Is aborted by the caller and when a file fails. */
  readonly signal: AbortSignal;
  /** Aborts the others. */
  abort(reason: unknown): void;
}

/** Does the work for every file; the first that fails ends the others. Then all bytes have arrived. */
export async function receiveAll(
  files: readonly WantedFile[],
  { transfer, abort }: DownloadScope,
  receive: (file: WantedFile) => Promise<Omit<ReceivedFile, 'hash'>>,
): Promise<ReceivedBytes> {
  const bytes: ReceivedBytes = { receivedByteLength: 0, presentByteLength: 0 };
  await transfer.run(files, new Slots(FILES_AT_ONCE), async (file) => {
    try {
      const { receivedByteLength, presentByteLength } = await receive(file);
      bytes.receivedByteLength += receivedByteLength;
      bytes.presentByteLength += presentByteLength;
    } catch (error) {
      abort(error);
      throw error;
    }
    return 0;
  });
  return bytes;
}
