/** Fetches from several shards one after the other, with one progress and one abort. */

import { Transfer, type TransferOptions } from '../io/transfer.js';
import type { Shard } from './shard.js';

/** What to fetch from one shard. */
export interface ShardWork {
  readonly file: Shard;
  /** Undefined for all tensors. */
  readonly names: readonly string[] | undefined;
  /** Length of the tensors in bytes: the shard's share of the progress. */
  readonly byteLength: number;
}

/**
 * Moves every shard's tensors by `move`, in this order. A shard uses all the threads that transfers
 * may use: several shards at once would not be faster.
 */
export async function transferShards<Work extends Pick<ShardWork, 'byteLength'>>(
  works: readonly Work[],
  options: TransferOptions,
  requireOpen: () => void,
  move: (work: Work, options: TransferOptions) => Promise<void>,
): Promise<void> {
  const totalBytes = works.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const transfer = new Transfer(totalBytes, options, requireOpen);
  for (const work of works) {
    let arrived = 0;
    await move(work, {
      signal: options.signal,
      // A shard's own total has the gaps that it fetches too, and lacks what it has already.
      onProgress: (shard) => {
        const share = shard.totalBytes === 0 ? 1 : shard.bytes / shard.totalBytes;
        const bytes = Math.floor(work.byteLength * share);
        transfer.advance(bytes - arrived);
        arrived = bytes;
      },
    });
  }
  transfer.finish();
}
