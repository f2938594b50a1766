/** What `--variant` and `--revision` choose at a local source, as a path that the library's writers take. */

import { basename } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { namingOf } from '../../file/shards/file-choice.js';
import { isDdufName } from '../../file/shards/file-names.js';
import type { SourceChoice } from '../../index.js';
import { isPipeline, isRemote, openSource } from './open-source.js';

/** A local source to be written again. */
interface ChosenSource {
  readonly path: string;
  /**
   * Options of `convert` for a folder. Of a model whose variant was chosen they give the new files its names,
   * so that those of the other variants stay in their place. Of a pipeline the variant is the one to take; folders
   * without it give their usual files.
   */
  readonly naming: {
    readonly filenamePattern?: string | undefined;
    readonly variant?: string | undefined;
  };
}

/**
 * Finds the index or file of a variant or a revision, or the folder of a pipeline. Without a choice the source is taken
 * as it is.
 *
 * @throws As `open` and `openPipeline`; RangeError for a choice where there is none
 */
export async function chosenAt(
  source: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<ChosenSource> {
  const { variant, revision } = choice;
  if (variant === undefined && revision === undefined) return { path: source, naming: {} };
  if (isRemote(source)) {
    const name = variant === undefined ? 'revision' : 'variant';
    const expected =
      'left out for an address: `download` takes it, and hf://org/name@REVISION has it';
    throw argumentRangeError(name, expected, variant ?? revision);
  }
  if (isDdufName(source) && revision === undefined) return { path: source, naming: { variant } };
  const opened = await openSource(source, { signal, storage: 'read', choice });
  opened.close();
  const path = opened.path as string;
  if (isPipeline(opened)) return { path, naming: { variant } };
  return { path, naming: variant === undefined ? {} : namingOf(basename(path)) };
}
