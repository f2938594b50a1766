/** Fetches from several shards one after the other, with one progress and one abort. */

import type { SafetensorsFile } from '../file/file.js';
import { Transfer, type TransferOptions } from '../io/transfer.js';

/** What to fetch from one shard. */
export interface ShardWork {
  readonly file: SafetensorsFile;
  /** Undefined for all tensors. */
  readonly names: readonly string[] | undefined;
  /** Length of the tensors in bytes: the shard's share of the progress. */
  readonly byteLength: number;
}

/** As within a shard: at most ten reports a second. */
const PROGRESS_INTERVAL_MS = 100;

/**
 * Moves every shard's tensors by `move`, in this order. A shard uses all the threads that transfers
 * may use, so that several at once would not be faster.
 */
export async function transferShards(
  works: readonly ShardWork[],
  options: TransferOptions,
  requireOpen: () => void,
  move: (work: ShardWork, options: TransferOptions) => Promise<void>,
): Promise<void> {
  const totalBytes = works.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const transfer = new Transfer(totalBytes, options, requireOpen);
  const { signal, onProgress } = options;
  let reportedAt = performance.now();
  let done = 0;
  const report = (bytes: number): void => {
    reportedAt = performance.now();
    onProgress?.({ bytes, totalBytes });
  };
  for (const work of works) {
    await move(work, {
      signal,
      // A shard counts the gaps that it fetches too, or only what it does not have yet.
      onProgress: (shard) => {
        const share = shard.bytes / shard.totalBytes;
        if (share < 1) report(done + Math.floor(work.byteLength * share));
      },
    });
    done += work.byteLength;
    if (done < totalBytes && performance.now() - reportedAt >= PROGRESS_INTERVAL_MS) report(done);
  }
  transfer.finish();
}
