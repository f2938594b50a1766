/** Lists checkpoints of safetensors, local and remote ones, by the headers of their files. */

import { Buffer } from 'node:buffer';
import type { Checkpoint, CheckpointSummary } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import type { ListedFile, ListedTensor, Listing } from './listing.js';

/** Bytes before the header: its length. */
const PREFIX_BYTE_LENGTH = 8;

interface HeaderEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [begin: number, end: number];
}

/** The tensors of a header that was checked, in the order of their bytes, and the length of the file. */
function tensorsOf(
  file: string,
  headerText: string,
): { tensors: ListedTensor[]; byteLength: number } {
  const dataStart = PREFIX_BYTE_LENGTH + Buffer.byteLength(headerText);
  let byteLength = dataStart;
  const tensors: ListedTensor[] = [];
  const header = JSON.parse(headerText) as Record<string, HeaderEntry>;
  // Keys that are numbers come first in an object, so the order is made below.
  for (const name of Object.keys(header)) {
    if (name === '__metadata__') continue;
    const { dtype, shape, data_offsets } = header[name] as HeaderEntry;
    const [begin, end] = data_offsets;
    byteLength = Math.max(byteLength, dataStart + end);
    tensors.push({
      name,
      dtype,
      shape,
      byteLength: end - begin,
      offset: dataStart + begin,
      file,
    });
  }
  // Tensors without bytes stand before the one that begins where they do.
  tensors.sort(
    (a, b) => (a.offset as number) - (b.offset as number) || a.byteLength - b.byteLength,
  );
  return { tensors, byteLength };
}

function listingOf(
  { path, metadata }: Pick<Checkpoint, 'path' | 'metadata'>,
  passedOver: readonly string[],
  headers: ReadonlyMap<string, string>,
  summary: CheckpointSummary,
): Listing {
  const files: ListedFile[] = [];
  const tensors: ListedTensor[] = [];
  for (const [name, text] of headers) {
    const { tensors: own, byteLength } = tensorsOf(name, text);
    for (const tensor of own) tensors.push(tensor);
    const { parameters = 0 } = summary.shards.get(name) ?? {};
    files.push({ name, byteLength, tensors: own.length, parameters });
  }
  const { parameters, totalParameters, quantization, dtypes } = summary;
  return {
    ...{ format: 'safetensors', path, files, tensors, parameters, totalParameters, quantization },
    ...{ dtypes, metadata, passedOver },
  };
}

/** Lists a checkpoint of this machine. Opens every shard. */
export function listCheckpoint(checkpoint: Checkpoint): Listing {
  const { passedOver } = checkpoint;
  return listingOf(checkpoint, passedOver, checkpoint.headerTexts(), checkpoint.summary());
}

/** Lists a remote checkpoint. Fetches the header of every shard. */
export async function listRemote(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<Listing> {
  const [headers, summary] = await Promise.all([
    checkpoint.headerTexts({ signal }),
    checkpoint.summary({ signal }),
  ]);
  return listingOf(checkpoint, [], headers, summary);
}
