/** `join` of the command line for several sources: all their tensors in one file, or in one folder. */

import { basename, dirname, resolve } from 'node:path';
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
      'overwrite' | 'digests' | 'signal' | 'onProgress' | 'filenamePattern' | 'variant'
    > {}

/**
 * Writes the tensors of several local sources into one file, or into a folder. Compares bytes, as `convert` does.
 *
 * @throws SafetensorsError `SAFETENSORS_INVALID_SELECTION` for names that several sources have, unless `duplicates`
 *   selects one; `SAFETENSORS_MISSING_SHARDS` for some shards of a model without the others; as `convert`
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
 * Shards have their number and count in their names: some of a model would be written as if they were all of it. Those
 * of a model are in one folder, or each number is in one of several.
 *
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`
 */
function requireAllShards(sources: readonly string[]): void {
  const models = new Map<string, NumberedShard[]>();
  for (const path of sources) {
    const [, digits, count] = SHARD_NUMBER.exec(basename(path)) ?? [];
    if (digits === undefined || count === undefined) continue;
    const key = JSON.stringify([foldName(singleNameOf(basename(path))), count]);
    const shard = { path, folder: dirname(resolve(path)), digits, count: Number(count) };
    const known = models.get(key) ?? [];
    models.set(key, known);
    known.push(shard);
  }
  for (const shards of models.values()) {
    const areSpread = new Set(shards.map(({ digits }) => digits)).size === shards.length;
    const folders = new Set(shards.map(({ folder }) => folder));
    const groups = areSpread
      ? [shards]
      : Array.from(folders, (one) => shards.filter(({ folder }) => folder === one));
    for (const together of groups) requireWhole(together);
  }
}

/** A file with the name of a shard. */
interface NumberedShard {
  readonly path: string;
  readonly folder: string;
  /** Its number, as in the name. */
  readonly digits: string;
  /** The number of shards, by the name. */
  readonly count: number;
}

function requireWhole(shards: readonly NumberedShard[]): void {
  const [{ path, digits, count }] = shards as [NumberedShard];
  const numbers = new Set(shards.map((shard) => Number(shard.digits)));
  if (numbers.size >= count) return;
  let absent = 1;
  while (numbers.has(absent)) absent++;
  const name = basename(path).replace(digits, String(absent).padStart(digits.length, '0'));
  const message =
    `expected ${count} shards, found ${numbers.size}, without ${quoteName(name)}; ` +
    'pass all shards of a model, or its folder';
  throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
}
