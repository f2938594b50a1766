/** What a call would write, as `dryRun: true` gives it: told from the layout that the call writes without it. */

import { join } from 'node:path';
import { parseStart } from '../../header/header.js';
import { runSync } from '../../platform/io/steps.js';
import type { WritableLayout } from '../save/tensor-writes.js';
import type { CheckpointLayout } from './layout.js';
import { wouldDelete } from './old-files.js';
import type { OtherFile } from './other-files.js';

/** Asks for the plan of a call in place of what it does. */
export interface DryRun {
  /**
   * Nothing is written, locked, made or deleted, and no stream is read; of sources only headers are. The result is
   * what the same call would do, found out by the same code.
   */
  readonly dryRun: true;
}

/** The same, where a program finds out while it runs whether to ask for the plan. */
export interface MaybeDryRun {
  /** With true as {@link DryRun}; otherwise the call does what it says. */
  readonly dryRun?: boolean | undefined;
}

/** A file that would be written. */
export interface PlannedFile {
  /** Its name in the folder. */
  readonly name: string;
  /** Its length in bytes, header included. */
  readonly byteLength: number;
  /** Names of its tensors in the order of their bytes; null for an index, and for what is copied as it is. */
  readonly tensors: readonly string[] | null;
}

/** What every call with `dryRun: true` says. */
export interface WritePlan {
  /** All files: those with tensors in the order of their numbers, then the index, then those that are copied. */
  readonly files: readonly PlannedFile[];
  /** Name of the index; null for a single file, which has none. */
  readonly index: string | null;
  /** Names of files of an earlier or an unfinished checkpoint that would be deleted. */
  readonly deleted: readonly string[];
}

/** The same of a call that writes all tensors anew. */
export interface CheckpointPlan extends WritePlan {
  /** Path of the index, or of the single file. */
  readonly path: string;
  /** Length of all tensors in bytes: `total_size` of the index. */
  readonly totalSize: number;
}

/** Which tensors share memory, and what became of them. */
export interface SharedTensors {
  /** For every name that was not written, the name of the tensor that was. */
  readonly dropped: ReadonlyMap<string, string>;
  /** Dropped names that are not in the metadata, because the key has another meaning there. */
  readonly unrecorded: readonly string[];
  /** With `dedupe`: groups of names that have bytes in common, which were written more than once. */
  readonly overlaps: readonly (readonly string[])[];
}

/** A file as its layout has it. */
export function plannedFile(name: string, { header, byteLength }: WritableLayout): PlannedFile {
  const parsed = runSync(parseStart(header, byteLength, { path: name }));
  return { name, byteLength, tensors: parsed.names() };
}

/**
 * The plan of a checkpoint that would be written into a folder, which need not be there.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for what must not
 *   be replaced
 */
export function planCheckpoint(
  folder: string,
  { files, pattern, index, totalSize }: CheckpointLayout,
  otherFiles: readonly OtherFile[] = [],
): CheckpointPlan {
  const ofIndex = index && { name: pattern.indexFilename, byteLength: index.byteLength };
  const unparsed = [...(ofIndex === null ? [] : [ofIndex]), ...otherFiles];
  const planned = [
    ...files.map(({ name, layout }) => plannedFile(name, layout)),
    ...unparsed.map(({ name, byteLength }) => ({ name, byteLength, tensors: null })),
  ];
  const names = planned.map(({ name }) => name);
  return {
    path: join(folder, ofIndex?.name ?? (names[0] as string)),
    files: planned,
    index: ofIndex?.name ?? null,
    totalSize,
    deleted: wouldDelete(folder, pattern, names),
  };
}
