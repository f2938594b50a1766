/** Receives the files of a plan, a few at a time. */

import { Slots } from '../../tensor/pieces.js';
import type { DownloadScope, ReceivedFile, WantedFile } from './wanted-file.js';

/** Small files are mostly latency, which passes beside others; each file has memory for pieces of its own. */
const FILES_AT_ONCE = 3;

/** How much came from where, of all files. */
export interface ReceivedBytes {
  receivedByteLength: number;
  presentByteLength: number;
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
