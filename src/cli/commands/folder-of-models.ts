/** The hint for a folder of models that a command takes for one model. */

import { statSync } from 'node:fs';
import { basename } from 'node:path';

/** Maximum number of models in the hint. */
const SHOWN_MODELS = 8;

/** Names the models one level below a folder without a checkpoint; empty for other errors and folders. */
export async function folderOfModelsHint(
  { code, path }: { readonly code?: unknown; readonly path?: unknown },
  signal: AbortSignal,
): Promise<string> {
  if (code !== 'SAFETENSORS_CHECKPOINT_NOT_FOUND' || typeof path !== 'string') return '';
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return '';
  const { modelFoldersIn } = await import('../sources/model-folders.js');
  // A folder that cannot be listed has no hint: the error is about something else.
  const models = await modelFoldersIn(path, signal).catch(() => []);
  const [first] = models;
  if (first === undefined) return '';
  const shown = models.slice(0, SHOWN_MODELS).map((model) => basename(model));
  const more = models.length > shown.length ? ` and ${models.length - shown.length} more` : '';
  return `; the folder has models in ${shown.join(', ')}${more}: pass one of them, such as ${first}`;
}
