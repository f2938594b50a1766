/**
 * The files next to the weights of a merged model: those of its base, with the tokenizer of the recipe if it lists one.
 */

import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { OwnMergeSource } from '../merge/base.js';
import type { MergedModel } from '../merge/models/merge-models.js';
import { isOfTokenizer, TOKENIZER_NAMES } from '../merge/models/vocabulary.js';
import {
  findOtherFiles,
  NO_OTHER_FILES,
  type SidecarFile,
  type SidecarFiles,
} from '../write/checkpoint/sidecar-files.js';

/** Finds the files for a folder. */
export type FindFiles = (target: string) => SidecarFiles;

/** Files of remote models that are copied: these have no list of all. */
const REMOTE_NAMES: readonly string[] = [
  'config.json',
  'generation_config.json',
  ...TOKENIZER_NAMES,
];

/**
 * Returns what finds the files of a base: all in its folder, which may be in the Hub cache, or configuration and
 * tokenizer of a remote one. There are none for a single file.
 *
 * @throws As `sibling`
 */
export async function baseFiles(
  source: unknown,
  base: OwnMergeSource,
  signal: AbortSignal,
): Promise<FindFiles> {
  const folder = folderOf(source, base);
  if (folder !== null) return (target) => findOtherFiles(folder, target);
  const files = base.local ? [] : await siblingsOf(base, REMOTE_NAMES, signal);
  return () => ({ ...NO_OTHER_FILES, files });
}

/** As `baseFiles`, for merged models: with the changed files of the result, and the tokenizer of the recipe. */
export async function mergedFiles(
  { view, base, tokenizer, changedFiles }: MergedModel,
  signal: AbortSignal,
): Promise<FindFiles> {
  const own = view as unknown as OwnMergeSource;
  const folder = folderOf(base.source, base.handle);
  if (folder === null) {
    const files = base.handle.local ? [] : await siblingsOf(own, REMOTE_NAMES, signal);
    return () => ({ ...NO_OTHER_FILES, files });
  }
  const other = base === tokenizer ? folder : folderOf(tokenizer.source, tokenizer.handle);
  const isRemote = !tokenizer.handle.local;
  const names = isRemote ? new Set([...changedFiles, ...TOKENIZER_NAMES]) : changedFiles;
  const changed = await siblingsOf(own, names, signal);
  const changedNames = new Set(changed.map(({ name }) => name));
  return (target) => {
    const found = findOtherFiles(folder, target);
    const files = found.files.filter(({ name }) => base === tokenizer || !isOfTokenizer(name));
    if (base !== tokenizer && other !== null) {
      const ofOther = findOtherFiles(other, target).files;
      files.push(...ofOther.filter(({ name }) => isOfTokenizer(name)));
    }
    const rest = files.filter(({ name }) => !changedNames.has(name));
    return { ...found, files: [...rest, ...changed] };
  };
}

/** Files of a checkpoint with these names, in memory. */
async function siblingsOf(
  checkpoint: Pick<OwnMergeSource, 'sibling'>,
  names: Iterable<string>,
  signal: AbortSignal,
): Promise<readonly SidecarFile[]> {
  const found = await Promise.all(
    Array.from(names, async (name): Promise<SidecarFile[]> => {
      const file = await checkpoint.sibling(name, { signal });
      if (file === undefined) return [];
      const { path, bytes: contents, byteLength } = file;
      return contents.length === byteLength ? [{ name, path, byteLength, contents }] : [];
    }),
  );
  return found.flat();
}

/** The folder of a local model that was opened from one, or by the id of a repository; else null. */
function folderOf(source: unknown, { local, path }: OwnMergeSource): string | null {
  if (typeof source !== 'string' || !local) return null;
  const isAddress = /^[a-z][a-z\d+.-]+:/i.test(source);
  const stats = isAddress ? undefined : statSync(source, { throwIfNoEntry: false });
  if (stats !== undefined) return stats.isDirectory() ? source : null;
  return path === undefined ? null : dirname(path);
}
