/** Writes a planned checkpoint into a folder. */

import { join } from 'node:path';
import type { OptionNames } from '../../errors/arguments.js';
import { forEachYielding } from '../../work/items.js';
import { limit, Slots } from '../../work/slots.js';
import {
  TRANSFER_OPTIONS,
  Transfer,
  type TransferOptions,
  totalByteLength,
} from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { requireReplacedNotInUse } from '../replacement/in-use.js';
import { LOCK_OPTIONS, type LockOptions } from '../replacement/locks.js';
import type { ReplacedFile } from '../replacement/replaced-files.js';
import { LeasedFiles } from '../save/leased-files.js';
import type { ReplaceOptions } from '../save/replace-file.js';
import type { FileWriteOptions } from '../save/save.js';
import { writeLayout } from '../save/write-layout.js';
import { FolderReplacement, NO_MODEL, type StaleFiles } from './folder-replacement.js';
import type { AnyEntry, CheckpointLayout, LaidOutFile } from './layout.js';
import type { OldFiles } from './old-files.js';
import { type DryRun, oldFilesBefore } from './plan.js';
import { copyOtherFile, type SidecarFile } from './sidecar-files.js';

/** Options of writing a checkpoint. */
export interface WriteCheckpointOptions extends TransferOptions, LockOptions, FileWriteOptions {}

/** As above, for a call that may be a dry run. */
export type WriteOrPlanOptions = WriteCheckpointOptions & DryRun;

/** Names of the options. */
export const WRITE_OPTIONS: OptionNames<WriteOrPlanOptions> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  durable: true,
  digests: true,
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
  readonly failedDeletions: readonly string[];
  /**
   * Files that existed before and were replaced or deleted, with their lengths. Those of the source are listed only
   * if some of its tensors were left out.
   */
  readonly replaced: readonly ReplacedFile[];
}

/** The system allows one write to a file at a time; a second file can be written or synced meanwhile. */
const WRITTEN_AT_ONCE = 2;

/** A tensor of a source file. */
type Sample = Pick<AnyEntry, 'payload'>;

/** Further options that some callers need. */
interface Extras extends Pick<ReplaceOptions, 'closeSources'> {
  /** Whether to read the tensors back and compare them before any file gets its name. */
  readonly verify?: boolean | undefined;
  /** Returns the files of some tensors, which are ended here. */
  readonly lease?: (() => LeasedFiles) | undefined;
  /** Throws if a file that must stay has appeared. Called when all files are complete. */
  readonly check?: () => void;
}

/** Files next to a checkpoint. */
interface Beside {
  /** Files to copy last; they get their names with the checkpoint. */
  readonly otherFiles?: readonly SidecarFile[] | undefined;
  /** Names of files to delete with the old checkpoint. */
  readonly obsolete?: readonly string[] | undefined;
}

/** Existing files that a caller has found; by default all that the new checkpoint replaces or deletes. */
interface Found {
  readonly old?: OldFiles;
}

/** A locked folder, and what is written into it. */
export interface FolderContents extends Beside {
  readonly folder: string;
  readonly checkpoint: CheckpointLayout;
}

/** For a folder that gets other files alone. */
export const NO_CHECKPOINT: CheckpointLayout = {
  pattern: NO_MODEL,
  metadata: { file: null, index: null },
  files: [],
  samples: [],
  totalSize: 0,
  index: null,
  interimIndex: () => new Uint8Array(),
};

/**
 * Writes all files, then makes them the checkpoint of the locked folder. Reads streams one at a time.
 */
export async function writeCheckpoint(
  folder: string,
  checkpoint: CheckpointLayout,
  options: WriteOrPlanOptions,
  { otherFiles, obsolete, old, ...extras }: Extras & Beside & Found = {},
): Promise<WrittenCheckpoint> {
  const contents = { folder, checkpoint, otherFiles, obsolete };
  const found = old ?? oldFilesBefore(folder, checkpoint);
  requireReplacedNotInUse(folder, found);
  const [stale] = (await writeFolders([contents], options, extras)) as [StaleFiles];
  const { files, totalSize } = checkpoint;
  const index = indexNameOf(checkpoint);
  const names = files.map(({ name }) => name);
  const path = join(folder, index ?? (names[0] as string));
  const replaced = withoutStaying(found.replaced, stale);
  return { path, files: names, index, totalSize, ...stale, replaced };
}

/** The replaced files without those that could not be deleted. */
export function withoutStaying(
  replaced: readonly ReplacedFile[],
  { failedDeletions }: Pick<WrittenCheckpoint, 'failedDeletions'>,
): readonly ReplacedFile[] {
  return replaced.filter(({ name }) => !failedDeletions.includes(name));
}

/** The name of a checkpoint's index; null for a single file. */
export function indexNameOf({ index, pattern }: CheckpointLayout): string | null {
  return index === null ? null : pattern.indexFilename;
}

/**
 * Writes the files of several folders; when all are complete, each folder gets its own in one step, one folder after
 * the other. Returns what is stale in each.
 */
export async function writeFolders(
  contents: readonly FolderContents[],
  options: WriteOrPlanOptions,
  { verify = false, closeSources, lease, check }: Extras,
): Promise<StaleFiles[]> {
  const { durable = true } = options;
  const failures: unknown[] = [];
  const transfer = new Transfer(writtenByteLength(contents), options, () => {
    if (failures.length > 0) throw failures[0];
  });
  const layouts = contents.map(({ checkpoint }) => checkpoint);
  const sources = lease?.() ?? new LeasedFiles([]);
  const replacements: FolderReplacement[] = [];
  try {
    let hasStream = false;
    const leasing = forEachYielding(samplesOf(layouts), ({ payload }) => {
      if (payload.kind === 'stream') hasStream = true;
      sources.add(payload);
    });
    await runAsync(leasing, transfer.signal);
    const writes: (() => Promise<void>)[] = [];
    for (const one of contents) {
      const { folder, checkpoint, otherFiles = [] } = one;
      const { pattern, files } = checkpoint;
      const replacement = await FolderReplacement.open(folder, pattern, namesOf(one), { durable });
      replacements.push(replacement);
      for (const file of files) {
        writes.push(() => writeFile(file, replacement, sources, transfer, verify));
      }
      for (const file of otherFiles) writes.push(() => copyOtherFile(file, replacement, transfer));
    }
    const slots = new Slots(hasStream ? 1 : WRITTEN_AT_ONCE);
    await limit(writes, slots, async (write) => {
      try {
        await write();
      } catch (error) {
        failures.push(error);
        throw failures[0];
      }
    });
    await runAsync(sources.verifyYielding(), transfer.signal);
    transfer.finish();
    sources.end();
    closeSources?.();
    check?.();
    const stale: StaleFiles[] = [];
    for (const [i, { checkpoint, obsolete }] of contents.entries()) {
      stale.push(await (replacements[i] as FolderReplacement).commit(checkpoint, obsolete));
    }
    return stale;
  } finally {
    for (const replacement of replacements) await replacement.discard();
    sources.end();
  }
}

/** The bytes that `writeFolders` writes, of all files. */
export function writtenByteLength(contents: readonly FolderContents[]): number {
  const lengths = contents.flatMap(({ checkpoint: { files }, otherFiles = [] }) => [
    ...files.map(({ layout }) => layout),
    ...otherFiles,
  ]);
  return totalByteLength(lengths);
}

/** Names of all files that a folder gets. */
function namesOf({ checkpoint, otherFiles = [] }: FolderContents): string[] {
  const index = indexNameOf(checkpoint);
  const files = [...checkpoint.files, ...otherFiles].map(({ name }) => name);
  return index === null ? files : [...files, index];
}

function* samplesOf(layouts: readonly CheckpointLayout[]): Generator<Sample, void, void> {
  for (const { samples } of layouts) yield* samples;
}

async function writeFile(
  { name, layout }: LaidOutFile,
  replacement: FolderReplacement,
  sources: LeasedFiles,
  transfer: Transfer,
  verify: boolean,
): Promise<void> {
  const file = await replacement.create(name, layout.byteLength);
  await writeLayout(file, layout, sources, transfer, { verify });
  await file.finish(transfer.signal);
}
