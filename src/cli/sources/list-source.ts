/** Lists whatever one model was found. */

import { listForeign } from './foreign-listing.js';
import { listGguf } from './gguf.js';
import type { Listing } from './listing.js';
import type { OpenedSource } from './open-source.js';
import { listCheckpoint, listRemote } from './safetensors-listing.js';

/** What was found, unless it is a pipeline of several models. */
export type OneModel = Exclude<OpenedSource, { kind: 'pipeline' }>;

/** Lists a model by its headers. */
export async function listSource(opened: OneModel, signal: AbortSignal): Promise<Listing> {
  if (opened.kind === 'gguf') return listGguf(opened.path);
  if ('file' in opened) return listForeign(opened.file, opened.kind);
  return opened.kind === 'local'
    ? listCheckpoint(opened.checkpoint)
    : await listRemote(opened.checkpoint, signal);
}
