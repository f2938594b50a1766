/** `join` of the command line for several sources: all their tensors in one file, or in one folder. */

import { basename, dirname } from 'node:path';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import { foldName, SHARD_NUMBER, singleNameOf } from '../../file/shards/file-choice.js';
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
 *   says which to take; `SAFETENSORS_MISSING_SHARDS` for some shards of a model without the others; as `convert`
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
      // After they are open: what is not a shard of a model is rejected as that.
      requireAllShards(sources);
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

/**
 * Shards have their number and count in their names: some of a model would be written as if they were all of it.
 *
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`
 */
function requireAllShards(sources: readonly string[]): void {
  const models = new Map<string, { readonly path: string; readonly numbers: Set<number> }>();
  for (const path of sources) {
    const [, number, count] = SHARD_NUMBER.exec(basename(path)) ?? [];
    if (number === undefined) continue;
    const key = JSON.stringify([dirname(path), foldName(singleNameOf(basename(path))), count]);
    const model = models.get(key) ?? { path, numbers: new Set() };
    models.set(key, model);
    model.numbers.add(Number(number));
  }
  for (const { path, numbers } of models.values()) {
    const [, first = '', count = ''] = SHARD_NUMBER.exec(basename(path)) ?? [];
    if (numbers.size >= Number(count)) continue;
    let absent = 1;
    while (numbers.has(absent)) absent++;
    const digits = String(absent).padStart(first.length, '0');
    const name = basename(path).replace(SHARD_NUMBER, `-${digits}-of-${count}`);
    const message =
      `expected ${Number(count)} shards, found ${numbers.size}, without ${quoteName(name)}; ` +
      'pass all shards of a model, or its folder';
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
  }
}
