/** Receives the files of a plan, a few at a time. */

import { Slots } from '../../work/slots.js';
import type { DownloadItem, DownloadScope, ReceivedFile } from './download-item.js';

/** Files at a time: small files are mostly latency, which overlaps; each file has its own memory for pieces. */
const FILES_AT_ONCE = 3;

/** Bytes received and reused, over all files. */
export interface ReceivedBytes {
  downloadedBytes: number;
  reusedBytes: number;
}

/** Does the work for every file; the first failure ends the others. On return all bytes have arrived. */
export async function receiveAll(
  files: readonly DownloadItem[],
  { transfer, abort }: DownloadScope,
  receive: (file: DownloadItem) => Promise<Omit<ReceivedFile, 'hash'>>,
): Promise<ReceivedBytes> {
  const bytes: ReceivedBytes = { downloadedBytes: 0, reusedBytes: 0 };
  await transfer.run(files, new Slots(FILES_AT_ONCE), async (file) => {
    try {
      const { downloadedBytes, reusedBytes } = await receive(file);
      bytes.downloadedBytes += downloadedBytes;
      bytes.reusedBytes += reusedBytes;
    } catch (error) {
      abort(error);
      throw error;
    }
    return 0;
  });
  return bytes;
}
