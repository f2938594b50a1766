/** What `--variant` and `--revision` choose at a local source, as a path that the library's writers take. */

import { basename } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { findSource, modelFiles } from '../../file/checkpoint/find-source.js';
import { namingOf } from '../../file/shards/file-choice.js';
import { isDdufName } from '../../file/shards/file-names.js';
import type { SourceChoice } from '../../index.js';
import { runAsync } from '../../work/work.js';
import { isRemote } from './open-source.js';

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
 * Finds the index or file of a variant or a revision, or the folder of a pipeline. Opens no weights. Without a choice
 * the source is taken as it is.
 *
 * @throws As `findSource`; RangeError for a choice where there is none
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
  const found = await runAsync(findSource(source, choice), signal);
  if (found.kind === 'pipeline') return { path: found.path, naming: { variant } };
  const { path } = modelFiles(found);
  return { path, naming: variant === undefined ? {} : namingOf(basename(path)) };
}
