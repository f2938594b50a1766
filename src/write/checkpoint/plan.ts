/** The result of `dryRun: true`: the plan of a call, computed from the layout that the call itself would write. */

import { join } from 'node:path';
import { parseStart } from '../../header/header.js';
import { runSync } from '../../work/work.js';
import type { OverwritePlan, OwnFiles, ReplacedFile } from '../replacement/replaced-files.js';
import type { WritableLayout } from '../save/tensor-writes.js';
import type { CheckpointLayout } from './layout.js';
import { type OldFiles, oldFilesOf } from './old-files.js';
import { NO_OTHER_FILES, type SidecarFiles } from './sidecar-files.js';

/** Asks for the plan of a call instead of its work. */
export interface DryRun<Dry extends boolean | undefined = boolean | undefined> {
  /**
   * True returns the plan: writes, locks, creates and deletes nothing, reads no streams, and only the headers of
   * sources. The plan comes from the code that the call itself runs.
   */
  readonly dryRun?: Dry | undefined;
}

/** The result of a call by its `dryRun`; either of them where only the running program knows which. */
export type DryRunResult<Dry, Plan, Done> = Dry extends true ? Plan : Done;

/** A file that would be written. */
export interface PlannedFile {
  /** Its name in the folder. */
  readonly name: string;
  /** Its length in bytes, header included. */
  readonly byteLength: number;
  /** Names of its tensors in the order of their bytes; null for an index and for copied files. */
  readonly tensors: readonly string[] | null;
}

/** The part of a plan that all calls share. */
export interface WritePlan extends OverwritePlan {
  /** All files: those with tensors in the order of their numbers, then the index, then copied files. */
  readonly files: readonly PlannedFile[];
  /** Name of the index; null for a single file. */
  readonly index: string | null;
  /** Names of files of an earlier or an unfinished checkpoint that would be deleted. */
  readonly deleted: readonly string[];
  /**
   * Existing files that would be replaced or deleted. Those of the source are listed only
   * if some of its tensors would be left out.
   */
  readonly replaced: readonly ReplacedFile[];
}

/** The plan of a call that rewrites all tensors. */
export interface CheckpointPlan extends WritePlan {
  /** Path of the index, or of the single file. */
  readonly path: string;
  /** Length of all tensors in bytes: `total_size` of the index. */
  readonly totalSize: number;
}

/** Tensors that share memory, and how they are written. */
export interface SharedTensors {
  /** For every dropped name, the name of the tensor written in its place. */
  readonly dropped: ReadonlyMap<string, string>;
  /** Dropped names that are not in the metadata, because the key has another meaning there. */
  readonly unrecorded: readonly string[];
  /** With `dedupe`: groups of names with overlapping bytes, which were written more than once. */
  readonly overlaps: readonly (readonly string[])[];
}

/** A file of a layout. */
export function plannedFile(name: string, { header, byteLength }: WritableLayout): PlannedFile {
  const parsed = runSync(parseStart(header, byteLength, { path: name }));
  return { name, byteLength, tensors: parsed.names() };
}

/**
 * Returns the plan of writing a checkpoint into a folder, which need not exist.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for a path that must not be
 *   replaced
 */
export function planCheckpoint(
  folder: string,
  checkpoint: CheckpointLayout,
  others: SidecarFiles = NO_OTHER_FILES,
  own?: OwnFiles,
): CheckpointPlan {
  const { files, pattern, index, totalSize } = checkpoint;
  const { files: otherFiles } = others;
  const ofIndex = index && { name: pattern.indexFilename, byteLength: index.byteLength };
  const unparsed = [...(ofIndex === null ? [] : [ofIndex]), ...otherFiles];
  const planned = [
    ...files.map(({ name, layout }) => plannedFile(name, layout)),
    ...unparsed.map(({ name, byteLength }) => ({ name, byteLength, tensors: null })),
  ];
  return {
    // The part of a pipeline may be empty: its path is that of no file.
    path: join(folder, ofIndex?.name ?? planned[0]?.name ?? ''),
    files: planned,
    index: ofIndex?.name ?? null,
    totalSize,
    ...oldFilesBefore(folder, checkpoint, others, own),
  };
}

/**
 * Returns the files that a checkpoint and the files next to it would replace or delete in a folder, which need not
 * exist.
 *
 * @throws As {@link planCheckpoint}
 */
export function oldFilesBefore(
  folder: string,
  { files, pattern, index }: CheckpointLayout,
  { files: otherFiles, obsolete }: Pick<SidecarFiles, 'files' | 'obsolete'> = NO_OTHER_FILES,
  own?: OwnFiles,
): OldFiles {
  const names = [...files, ...otherFiles].map(({ name }) => name);
  if (index !== null) names.push(pattern.indexFilename);
  return oldFilesOf(folder, pattern, names, { obsolete, own });
}
