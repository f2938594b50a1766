/**
 * The files next to the weights of a merged model: those of its base, with the tokenizer of the recipe if it lists one.
 */

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Checkpoint } from '../file/checkpoint/checkpoint.js';
import type { MergedModel } from '../merge/models/merge-models.js';
import { isOfTokenizer } from '../merge/models/vocabulary.js';
import {
  findOtherFiles,
  type SidecarFile,
  type SidecarFiles,
} from '../write/checkpoint/sidecar-files.js';

/**
 * Returns what finds the files for a folder. Only models that were opened from folders have such files.
 *
 * @throws As `sibling` of the view
 */
export async function mergedFiles(
  { view, base, tokenizer, changedFiles }: MergedModel,
  signal: AbortSignal,
): Promise<(target: string) => SidecarFiles> {
  const changed: SidecarFile[] = [];
  if (!isFolder(base)) return () => ({ files: [], skipped: [], obsolete: [] });
  for (const name of changedFiles) {
    const file = await (view as unknown as Checkpoint).sibling(name, { signal });
    if (file === undefined) continue;
    const { path, bytes: contents, byteLength } = file;
    if (contents.length === byteLength) changed.push({ name, path, byteLength, contents });
  }
  const names = new Set(changed.map(({ name }) => name));
  return (target) => {
    const found = findOtherFiles(base, target);
    const own = found.files.filter(({ name }) => base === tokenizer || !isOfTokenizer(name));
    const ofTokenizer =
      base === tokenizer || !isFolder(tokenizer)
        ? []
        : findOtherFiles(tokenizer, target).files.filter(({ name }) => isOfTokenizer(name));
    const files = [...own, ...ofTokenizer].filter(({ name }) => !names.has(name));
    return { ...found, files: [...files, ...changed] };
  };
}

function isFolder(source: unknown): source is string {
  const path = typeof source === 'string' && !/^[a-z][a-z\d+.-]+:/i.test(source) ? source : null;
  return path !== null && statSync(join(path), { throwIfNoEntry: false })?.isDirectory() === true;
}
