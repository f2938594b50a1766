/** Writes a planned checkpoint into a folder. */

import { join } from 'node:path';
import type { OptionNames } from '../../errors/arguments.js';
import {
  TRANSFER_OPTIONS,
  Transfer,
  type TransferOptions,
  totalByteLength,
} from '../../platform/transfer/transfer.js';
import { limit, Slots } from '../../tensor/pieces.js';
import { LOCK_OPTIONS, type LockOptions } from '../replacement/locks.js';
import type { ReplaceOptions } from '../save/replace-file.js';
import type { SaveSyncOptions } from '../save/save.js';
import { BorrowedFiles } from '../save/source-files.js';
import { writeLayout } from '../save/tensor-writes.js';
import { FolderReplacement } from './folder-replacement.js';
import type { CheckpointLayout, LaidOutFile } from './layout.js';
import { copyOtherFile, type OtherFile } from './other-files.js';
import type { DryRun, MaybeDryRun } from './plan.js';

/** Options of writing a checkpoint. */
export interface WriteCheckpointOptions
  extends TransferOptions,
    LockOptions,
    Pick<SaveSyncOptions, 'durable' | 'checksums'> {
  /** True returns the plan of the call and writes nothing: {@link DryRun}. */
  readonly dryRun?: false | undefined;
}

/** As above, for a call that may be a dry run. */
export type WriteOrPlanOptions = Omit<WriteCheckpointOptions, 'dryRun'> & MaybeDryRun;

/** Names of the options. */
export const WRITE_OPTIONS: OptionNames<WriteCheckpointOptions> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  durable: true,
  checksums: true,
  dryRun: true,
};

/** The files that were written, and those that were deleted. */
export interface WrittenCheckpoint {
  /** Path of the index, or of the single file. */
  readonly path: string;
  /** Names of the files that hold tensors, in the order of their numbers. */
  readonly files: readonly string[];
  /** Name of the index; null for a single file. */
  readonly index: string | null;
  /** Length of all tensors in bytes: `total_size` of the index. */
  readonly totalSize: number;
  /** Names of files of an earlier or an unfinished checkpoint that were deleted. */
  readonly deleted: readonly string[];
  /** Names of such files that could not be deleted, such as mapped files on Windows. */
  readonly undeleted: readonly string[];
}

/** The system allows one write to a file at a time; a second file can be written or synced meanwhile. */
const WRITTEN_AT_ONCE = 2;

/** Further options that some callers need. */
interface Extras extends Pick<ReplaceOptions, 'closeSources'> {
  /** Files to copy last; they get their names with the checkpoint. */
  readonly otherFiles?: readonly OtherFile[];
  /** Names of files to delete with the old checkpoint. */
  readonly obsolete?: readonly string[];
  /** Whether to read the tensors back and compare them before any file gets its name. */
  readonly verify?: boolean;
}

/**
 * Writes all files, then makes them the checkpoint of the locked folder. Reads streams one at a time.
 */
export async function writeCheckpoint(
  folder: string,
  checkpoint: CheckpointLayout,
  options: WriteOrPlanOptions,
  { otherFiles = [], obsolete = [], verify = false, closeSources }: Extras = {},
): Promise<WrittenCheckpoint> {
  const { durable = true } = options;
  const { files, pattern, totalSize } = checkpoint;
  const byteLength =
    totalByteLength(files.map(({ layout }) => layout)) + totalByteLength(otherFiles);
  const failures: unknown[] = [];
  const transfer = new Transfer(byteLength, options, () => {
    if (failures.length > 0) throw failures[0];
  });
  const index = checkpoint.index === null ? null : pattern.indexFilename;
  const names = files.map(({ name }) => name);
  const sources = new BorrowedFiles(checkpoint.samples);
  try {
    const allNames = [
      ...names,
      ...(index === null ? [] : [index]),
      ...otherFiles.map(({ name }) => name),
    ];
    const replacement = await FolderReplacement.open(folder, pattern, allNames, { durable });
    try {
      const writes = [
        ...files.map((file) => () => writeFile(file, replacement, sources, transfer, verify)),
        ...otherFiles.map((file) => () => copyOtherFile(file, replacement, transfer)),
      ];
      const slots = new Slots(hasStream(checkpoint) ? 1 : WRITTEN_AT_ONCE);
      await limit(writes, slots, async (write) => {
        try {
          await write();
        } catch (error) {
          failures.push(error);
          throw failures[0];
        }
      });
      sources.verify();
      transfer.finish();
      sources.end();
      closeSources?.();
      const stale = await replacement.commit(checkpoint, obsolete);
      const path = join(folder, index ?? (names[0] as string));
      return { path, files: names, index, totalSize, ...stale };
    } finally {
      await replacement.discard();
    }
  } finally {
    sources.end();
  }
}

async function writeFile(
  { name, layout }: LaidOutFile,
  replacement: FolderReplacement,
  sources: BorrowedFiles,
  transfer: Transfer,
  verify: boolean,
): Promise<void> {
  const file = await replacement.create(name, layout.byteLength);
  await writeLayout(file, layout, sources, transfer, { verify });
  await file.finish(transfer.signal);
}

function hasStream(checkpoint: CheckpointLayout): boolean {
  for (const { payload } of checkpoint.samples) if (payload.kind === 'stream') return true;
  return false;
}
