/** Receives the files of a plan, a few at a time. */

import { Slots } from '../../work/slots.js';
import type { DownloadScope, ReceivedFile, WantedFile } from './wanted-file.js';

/** Files at a time: small files are mostly latency, which overlaps; each file has its own memory for pieces. */
const FILES_AT_ONCE = 3;

/** Bytes received and reused, over all files. */
export interface ReceivedBytes {
  receivedByteLength: number;
  presentByteLength: number;
}

/** Does the work for every file; the first failure ends the others. On return all bytes have arrived. */
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
