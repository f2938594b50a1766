/** `join` of the command line for several sources: all their tensors in one file, or in one folder. */

import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { requireFolderName, requireLocalTarget } from '../checkpoint/locked-folder.js';
import type { DryRun } from '../checkpoint/plan.js';
import {
  type RewriteOptions,
  type RewritePlan,
  type Rewritten,
  rewriteFile,
  rewriteFolder,
} from '../checkpoint/rewrite.js';
import { type JoinChoices, JoinedSource, type SourcePart } from './joined-source.js';
import { openConversionSource } from './open-source.js';

/** The choices, and how to write the files. */
interface JoinOptions
  extends JoinChoices,
    DryRun,
    Pick<
      RewriteOptions<never>,
      'overwrite' | 'signal' | 'onProgress' | 'filenamePattern' | 'variant'
    > {}

/**
 * Writes the tensors of several local sources into one file, or into a folder. Compares bytes, as `convert` does.
 *
 * @throws SafetensorsError `SAFETENSORS_INVALID_SELECTION` for names that several sources have, unless `duplicates`
 *   says which to take; as `convert`
 */
export async function joinSources(
  sources: readonly string[],
  target: string,
  options: JoinOptions,
): Promise<Rewritten | RewritePlan> {
  requireLittleEndianHost();
  const { names, rename, duplicates, signal, ...writing } = options;
  const isFile = target.endsWith(SHARD_EXTENSION);
  if (isFile) requireLocalTarget('target', target);
  else requireFolderName('target', target);
  const open = async (): Promise<JoinedSource> => {
    const parts: SourcePart[] = [];
    try {
      for (const label of sources) {
        const opening = { verify: true, dequantize: undefined, signal };
        parts.push({ label, source: await openConversionSource(label, {}, opening) });
      }
    } catch (error) {
      for (const { source } of parts) source.close();
      throw error;
    }
    return new JoinedSource(parts, { names, rename, duplicates });
  };
  const choices = {
    ...writing,
    signal,
    selection: {},
    shared: 'dedupe',
    metadata: new Map<string, string>(),
  } as const;
  return isFile
    ? await rewriteFile(target, open, choices)
    : await rewriteFolder(target, open, { ...choices, maxShardSize: Number.POSITIVE_INFINITY });
}
