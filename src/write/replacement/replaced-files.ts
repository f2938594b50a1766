/**
 * Lists the files of a target that a write replaces or deletes, and stops before weights of another source are lost.
 */

import { type BigIntStats, lstatSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Advice } from '../../errors/advice.js';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import { hasWeightsName } from '../../file/shards/shard-paths.js';
import { formatBytes } from '../../inspect/format.js';
import { identityOf } from '../../platform/io/file-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** How many files an error lists. */
const LISTED_FILES = 20;

/** A file of the target that a write replaces or deletes. */
export interface ReplacedFile {
  /** Its name in the folder. */
  readonly name: string;
  /** Its length in bytes before the write. */
  readonly byteLength: number;
}

/** Option of calls that stop before they replace weights of another source. */
export interface OverwriteOptions {
  /**
   * Replaces weight files that the target holds. By default the call lists them in an error
   * `SAFETENSORS_TARGET_EXISTS` and writes nothing. Files of the source itself are always replaced.
   */
  readonly overwrite?: boolean | undefined;
}

/** The part of a plan that announces the error of the call itself. */
export interface OverwritePlan {
  /** True if the call would throw `SAFETENSORS_TARGET_EXISTS` for lack of `overwrite: true`; absent otherwise. */
  readonly needsOverwrite?: true;
}

/** Advice against a rejected replacement. */
const OVERWRITE: Advice = {
  option: 'overwrite',
  value: 'true',
  text: 'pass overwrite: true to replace them',
};

/**
 * Files that a write reads, by their identity. Their replacement loses no tensor if the write takes all of them; else
 * they are listed among the replaced files, see {@link OwnFiles.withoutWeights}.
 */
export class OwnFiles {
  readonly #identities = new Set<string>();
  readonly #folders = new Set<string>();

  /** @param paths the index, the shards, the only file; paths within archives count for nothing */
  constructor(paths: Iterable<string> = []) {
    for (const path of paths) {
      const stats = statsAt(path);
      if (stats === undefined) continue;
      this.#identities.add(identityOf(stats));
      const folder = statsAt(dirname(path));
      if (folder !== undefined) this.#folders.add(identityOf(folder));
    }
  }

  /** The same folders without the files: weights of the source are listed as those of another. */
  withoutWeights(): OwnFiles {
    const others = new OwnFiles();
    for (const folder of this.#folders) others.#folders.add(folder);
    return others;
  }

  /** Whether a file is one of the source. */
  hasFile(stats: BigIntStats): boolean {
    return this.#identities.has(identityOf(stats));
  }

  /** Whether a file is one of the source, or a file without weights next to it. */
  has(folder: string, name: string, stats: BigIntStats): boolean {
    if (this.hasFile(stats)) return true;
    if (hasWeightsName(name)) return false;
    const parent = statsAt(dirname(join(folder, name)));
    return parent !== undefined && this.#folders.has(identityOf(parent));
  }
}

/** Follows links; undefined where nothing is, or nothing that can be examined. */
function statsAt(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (hasCode(error, ['ENOTDIR', 'ELOOP', 'ENAMETOOLONG'])) return undefined;
    throw error;
  }
}

/** Whether a link is there, also a dangling one. */
function isLinkAt(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  } catch (error) {
    if (hasCode(error, ['ENOTDIR', 'ENAMETOOLONG'])) return false;
    throw error;
  }
}

/**
 * Lists the files among these names that exist in the folder and are not the source's, by name. A dangling link has
 * the length 0.
 */
export function replacedAmong(
  folder: string,
  names: Iterable<string>,
  own: OwnFiles = new OwnFiles(),
): ReplacedFile[] {
  return [...new Set(names)].sort().flatMap((name): ReplacedFile[] => {
    const path = join(folder, name);
    const stats = statsAt(path);
    if (stats !== undefined) {
      return own.has(folder, name, stats) ? [] : [{ name, byteLength: Number(stats.size) }];
    }
    return isLinkAt(path) ? [{ name, byteLength: 0 }] : [];
  });
}

/** Whether {@link requireOverwrite} throws for these files. */
function needsOverwrite(
  replaced: readonly ReplacedFile[],
  { overwrite = false }: OverwriteOptions,
): boolean {
  return !overwrite && replaced.some(({ name }) => hasWeightsName(name));
}

/** The part of a plan for {@link OverwritePlan}. */
export function overwritePlan(
  replaced: readonly ReplacedFile[],
  options: OverwriteOptions,
): OverwritePlan {
  return needsOverwrite(replaced, options) ? { needsOverwrite: true } : {};
}

/**
 * Throws for weights and indexes of weights among the replaced files, unless the caller has allowed it.
 *
 * @throws SafetensorsError `SAFETENSORS_TARGET_EXISTS`
 */
export function requireOverwrite(
  replaced: readonly ReplacedFile[],
  target: string,
  { overwrite = false }: OverwriteOptions,
): void {
  const weights = replaced.filter(({ name }) => hasWeightsName(name));
  if (!needsOverwrite(replaced, { overwrite })) return;
  const listed = weights
    .slice(0, LISTED_FILES)
    .map(({ name, byteLength }) => `${quoteName(name)} (${formatBytes(byteLength)})`);
  const more = weights.length - listed.length;
  const all = `${listed.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  throw new SafetensorsError(
    'SAFETENSORS_TARGET_EXISTS',
    `the target already holds weights, which would be replaced: ${all}; ${OVERWRITE.text}`,
    { path: target, advice: [OVERWRITE] },
  );
}
