/** Lists whatever one model was found. */

import { listForeign } from './foreign-listing.js';
import type { Listing } from './listing.js';
import { foreignSource, type OpenedSource } from './open-source.js';
import { listCheckpoint, listRemote } from './safetensors-listing.js';

/** What was found, unless it is a pipeline of several models. */
export type OneModel = Exclude<OpenedSource, { kind: 'pipeline' }>;

/**
 * Lists a model by its headers.
 *
 * @throws ForeignFormatError for a GGUF file
 */
export async function listSource(opened: OneModel, signal: AbortSignal): Promise<Listing> {
  if (opened.kind === 'gguf') throw foreignSource(opened, 'a model of safetensors, torch or NumPy');
  if (opened.kind === 'remote') return await listRemote(opened.checkpoint, signal);
  const { kind, checkpoint } = opened;
  return kind === 'local' ? listCheckpoint(checkpoint) : listForeign(checkpoint, kind);
}
