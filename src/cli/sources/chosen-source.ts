/** What `--variant` and `--revision` choose at a local source, as a path that the library's writers take. */

import { isDdufName } from '../../file/shards/file-names.js';
import { openCheckpoint, openPipeline } from '../../index.js';
import type { SourceChoice } from '../../remote.js';
import { isOfPipeline } from './open-source.js';

/** A local source to be written anew. */
export interface ChosenSource {
  readonly path: string;
  /** Of a pipeline, whose folders need not have it: the variant to take. */
  readonly variant?: string | undefined;
}

/**
 * Finds the index or file of a variant or a revision, or the folder of a pipeline. Without a choice the source is taken
 * as it is.
 *
 * @throws As `openCheckpoint` and `openPipeline`; RangeError for a choice where there is none
 */
export function chosenAt(source: string, choice: SourceChoice): ChosenSource {
  const { variant, revision } = choice;
  if (variant === undefined && revision === undefined) return { path: source };
  if (isDdufName(source) && revision === undefined) return { path: source, variant };
  try {
    return { path: pathOf(openCheckpoint(source, { storage: 'read', ...choice })) };
  } catch (error) {
    if (!isOfPipeline(error)) throw error;
    return { path: pathOf(openPipeline(source, { storage: 'read', ...choice })), variant };
  }
}

function pathOf(opened: { readonly path: string; close(): void }): string {
  opened.close();
  return opened.path;
}
