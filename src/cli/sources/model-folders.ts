/** Which folders hold models, by the names of their files. */

import { isDdufName, PIPELINE_FILE } from '../../file/shards/file-names.js';
import { isDistributed } from '../../file/shards/incomplete-models.js';
import { hasWeightsName } from '../../file/shards/shard-paths.js';
import { type WalkedFile, type WalkedFolder, walkFolder } from './walk-folder.js';

/** The files of a folder that may be models, or shards of one. */
export function weightsIn({ files }: WalkedFolder): WalkedFile[] {
  return files.filter(({ name }) => hasWeightsName(name) || isDdufName(name));
}

/** Whether a folder is a pipeline, whose models are in the folders below it. */
export function isPipelineFolder({ files }: WalkedFolder): boolean {
  return files.some(({ name }) => name === PIPELINE_FILE);
}

/** Whether the files of a folder are the pieces of a distributed checkpoint. */
export function hasPieces({ files }: WalkedFolder): boolean {
  return isDistributed(files.map(({ name }) => name));
}

/**
 * The paths of the models one level below a folder that has none itself, in the order of names; empty for other
 * folders. Opens no file, and follows no link to a folder.
 *
 * @throws As `walkFolder`
 */
export async function modelFoldersIn(path: string, signal: AbortSignal): Promise<string[]> {
  const { folders } = await walkFolder(path, signal, 1);
  const holdsModel = (folder: WalkedFolder): boolean =>
    weightsIn(folder).length > 0 || isPipelineFolder(folder) || hasPieces(folder);
  const [top, ...below] = folders;
  if (top === undefined || holdsModel(top)) return [];
  return below.filter(holdsModel).map((folder) => folder.path);
}
