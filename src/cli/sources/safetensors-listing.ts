/** Lists checkpoints of safetensors, local and remote ones, by the headers of their files. */

import type { Checkpoint, CheckpointSummary } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import { headerFacts } from './header-text.js';
import type { ListedFile, ListedTensor, Listing } from './listing.js';

function listingOf(
  { path, metadata }: Pick<Checkpoint, 'path' | 'metadata'>,
  passedOver: readonly string[],
  headers: ReadonlyMap<string, string>,
  summary: CheckpointSummary,
): Listing {
  const files: ListedFile[] = [];
  const tensors: ListedTensor[] = [];
  for (const [name, text] of headers) {
    const { tensors: own, byteLength } = headerFacts(name, text);
    for (const tensor of own) tensors.push(tensor);
    const { parameters = 0 } = summary.shards.get(name) ?? {};
    files.push({ name, byteLength, tensors: own.length, parameters });
  }
  const { parameters, totalParameters, quantization, dtypes } = summary;
  return {
    ...{ format: 'safetensors', path, files, tensors, parameters, totalParameters, quantization },
    ...{ dtypes, metadata, passedOver, leftOut: [] },
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
