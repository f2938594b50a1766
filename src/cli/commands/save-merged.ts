/** Saves merged checkpoints: adapters in a base, and models. */

import type { AnyCheckpoint } from '../../index.js';
import type { SidecarFiles } from '../../write/checkpoint/sidecar-files.js';
import { progressOn } from '../output/progress.js';
import type { CommandContext, OptionValues } from './command.js';
import { isDigested, isDryRun, isForced, shardSizeOf, type WrittenResult } from './written.js';

/** What a merge writes, for `--json`. */
export type SavedResult = Pick<
  WrittenResult,
  'target' | 'dryRun' | 'files' | 'index' | 'byteLength' | 'deleted' | 'replaced' | 'needsForce'
>;

/** Saves a merged checkpoint into a folder, or plans that. */
export async function saveMerged(
  { signal, stderr }: CommandContext,
  options: OptionValues,
  target: string,
  merged: AnyCheckpoint,
  otherFiles: ((folder: string) => SidecarFiles) | undefined,
): Promise<SavedResult> {
  const dryRun = isDryRun(options);
  const progress = progressOn(stderr, 'merging');
  try {
    const { saveCheckpoint } = await import('../../write/checkpoint/save.js');
    const { onProgress } = progress;
    const digests = isDigested(options);
    const saving = { maxShardSize: shardSizeOf(options), signal, onProgress, dryRun, digests };
    const place = { otherFiles, overwrite: isForced(options) };
    const saved = await saveCheckpoint(target, merged, saving, undefined, place);
    const { index, totalSize: byteLength, replaced, deleted } = saved;
    const files = saved.files.flatMap((file) => {
      if (typeof file === 'string') return file;
      return file.tensors === null ? [] : file.name;
    });
    const force =
      'needsOverwrite' in saved && saved.needsOverwrite ? ({ needsForce: true } as const) : {};
    return { target, dryRun, files, index, byteLength, replaced, deleted, ...force };
  } finally {
    progress.end();
  }
}
