/** Receives a planned file into a temporary file: continues an earlier try if it can, and checks the result. */

import { RemoteError } from '../../errors/errors.js';
import { statsOf } from '../../platform/io/file-calls.js';
import { writeViews } from '../../platform/io/file-writes.js';
import type { Transfer } from '../../work/transfer.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import type { HttpFile } from '../http-file.js';
import type {
  DownloadItemInfo,
  DownloadScope,
  IndexItem,
  ReceivedFile,
  WholeFile,
} from './download-item.js';
import { fetchAhead } from './fetch-ahead.js';
import { beginGrowingHash, type GrowingHash } from './growing-hash.js';
import { piecesFrom } from './pieces.js';
import { receiveWhole } from './receive-whole.js';

/**
 * Fills the temporary file. Given a hash, receives a wrong file once more from its start, as `again` specifies.
 *
 * @throws RemoteError, FileChangedError; `SAFETENSORS_BAD_RESPONSE` for a file whose hash differs from the Hub's;
 *   errors of the system; the signal's reason
 */
export async function receiveFile(
  planned: WholeFile,
  target: Replacement,
  { transfer, signal }: Pick<DownloadScope, 'transfer' | 'signal'>,
  again: WholeFile = planned,
): Promise<ReceivedFile> {
  const first = await receive(planned, target, transfer, signal);
  if (planned.hash === null || first.hash === planned.hash) return first;
  target.truncate(0);
  transfer.advance(-planned.byteLength);
  const second = await receive(again, target, transfer, signal);
  if (second.hash === planned.hash) {
    return { ...second, downloadedBytes: first.downloadedBytes + second.downloadedBytes };
  }
  target.giveUp();
  const message = `expected the Hub's hash ${planned.hash}, found ${second.hash}`;
  throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path: target.path });
}

/** A file whose bytes are known already. */
export function knownFile(
  facts: Omit<DownloadItemInfo, 'byteLength'>,
  given: Uint8Array,
): Omit<IndexItem, 'interimIndex'> {
  const bytes = Uint8Array.from(given);
  const whole = { ...facts, byteLength: bytes.length, segments: [{ file: null, bytes }] };
  return { ...whole, bytes, receive: (target, _, scope) => receiveFile(whole, target, scope) };
}

/** Bytes that were counted as progress. */
interface CountedBytes {
  present: number;
  received: number;
}

/** Receives a file in pieces, or as a whole if the server has answered none of the ranges. */
async function receive(
  planned: WholeFile,
  target: Replacement,
  transfer: Transfer,
  signal: AbortSignal,
): Promise<ReceivedFile> {
  const { whole } = planned;
  const lacksRanges = (): boolean => whole?.lacksRanges === true;
  if (!lacksRanges()) {
    const counted: CountedBytes = { present: 0, received: 0 };
    try {
      return await receivePieces(planned, target, counted, transfer, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!lacksRanges() || counted.received > 0) throw error;
      transfer.advance(-counted.present);
    }
  }
  return await receiveWhole({ ...planned, whole: whole as HttpFile }, target, transfer, signal);
}

async function receivePieces(
  planned: WholeFile,
  target: Replacement,
  counted: CountedBytes,
  transfer: Transfer,
  signal: AbortSignal,
): Promise<ReceivedFile> {
  const { byteLength, hash: expected } = planned;
  const hash = beginGrowingHash(expected, byteLength, target);
  try {
    return await receiveHashed(planned, target, { hash, counted, transfer }, signal);
  } finally {
    await hash.end();
  }
}

async function receiveHashed(
  planned: WholeFile,
  target: Replacement,
  { hash, counted, transfer }: { hash: GrowingHash; counted: CountedBytes; transfer: Transfer },
  signal: AbortSignal,
): Promise<ReceivedFile> {
  const { byteLength } = planned;
  const size = Number(statsOf(target).size);
  const isUsable = planned.version !== null && size <= byteLength;
  const kept = isUsable ? size : 0;
  const reusedBytes = await hash.addStart(kept, signal);
  if (reusedBytes < size) target.truncate(reusedBytes);
  transfer.advance(reusedBytes);
  counted.present = reusedBytes;
  let position = reusedBytes;
  await fetchAhead(piecesFrom(planned, position), {
    signal,
    advance: (arrived) => {
      counted.received += arrived;
      transfer.advance(arrived);
    },
    use: async (bytes) => {
      await writeViews(target, [bytes], position);
      hash.add(bytes);
      position += bytes.length;
    },
  });
  const downloadedBytes = position - reusedBytes;
  return { hash: await hash.digest(), downloadedBytes, reusedBytes };
}
