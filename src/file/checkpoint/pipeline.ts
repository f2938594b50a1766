/** The folders of a local Diffusers pipeline. */

import { join } from 'node:path';
import type { Advice } from '../../errors/advice.js';
import type { SafetensorsError } from '../../errors/errors.js';
import type { Work } from '../../work/work.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import {
  type Component,
  componentsAmong,
  isComponentName,
  MAX_COMPONENTS,
  openingCall,
  pipelineError,
} from '../shards/pipeline-files.js';
import { usableNames } from './find-files.js';

/** Returns the path that opens a file or folder of the pipeline, given by its path in the pipeline. */
export type PathTo = (relative: string) => string;

/**
 * The error for a folder with these names that has no checkpoint and is a pipeline; undefined for other folders. `label`
 * names the folder.
 */
export function* localPipelineError(
  folder: string,
  names: readonly string[],
  label: string,
  pathTo: PathTo,
): Work<SafetensorsError | undefined> {
  if (!names.includes(PIPELINE_FILE)) return undefined;
  const callFor = (relative: string, variant: string | undefined): Advice =>
    openingCall('safeOpen', pathTo(relative), variant);
  return pipelineError(names, yield* filesBelow(folder, names), callFor, label);
}

/**
 * Returns the models of a pipeline; `named` are the components in its `model_index.json`.
 *
 * @throws As `componentsAmong`
 */
export function* modelsOf(
  folder: string,
  named: readonly string[] = [],
  variant?: string,
): Work<Component[]> {
  const byFolder = yield* filesBelow(folder, yield* namesIn(folder));
  return componentsAmong(byFolder, named, variant, folder);
}

/** The names of the files in each folder directly below a pipeline's. */
function* filesBelow(
  folder: string,
  names: readonly string[],
): Work<Map<string, readonly string[]>> {
  const byFolder = new Map<string, readonly string[]>();
  for (const name of names.filter(isComponentName).toSorted().slice(0, MAX_COMPONENTS)) {
    byFolder.set(name, yield* namesIn(join(folder, name)));
  }
  return byFolder;
}

/** Lists the names in a folder; empty for other paths and unreadable folders. */
export function* namesIn(folder: string): Work<string[]> {
  try {
    return (yield* usableNames(folder)).sort();
  } catch (error) {
    // An abort, or an error of ours, is not about the folder.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    return [];
  }
}
