/** What a conversion writes into: one file, or a folder. */

import { basename, dirname } from 'node:path';
import {
  type WriteOrPlanOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from '../checkpoint/write/execute-plan.js';
import {
  type CheckpointLayoutOptions,
  LAYOUT_OPTIONS,
  layOutCheckpoint,
  tableOf,
} from '../checkpoint/write/layout.js';
import { inLockedFolder, inMadeFolder } from '../checkpoint/write/locked-folder.js';
import {
  type CopiedFiles,
  findOtherFiles,
  NO_OTHER_FILES,
  type OtherFile,
  type OtherFilesOptions,
} from '../checkpoint/write/other-files.js';
import { type CheckpointPlan, planCheckpoint, plannedFile } from '../checkpoint/write/plan.js';
import { argumentRangeError, requireBoolean } from '../errors/arguments.js';
import { layOut } from '../format/header-writer.js';
import { replaceFile, requireReplaceableFile } from '../save/replace-file.js';
import { SHARD_EXTENSION } from '../shards/shard-paths.js';
import type { Conversion } from './plan.js';

/** How the files are written. */
type TargetOptions = CheckpointLayoutOptions & OtherFilesOptions & WriteOrPlanOptions;

/** The files that are to be written. */
export interface FilesToWrite {
  /** Names that could not be recorded. */
  readonly unrecorded: readonly string[];
  /** The plan of `write`. */
  plan(): Promise<CheckpointPlan & CopiedFiles>;
  write(): Promise<WrittenCheckpoint & CopiedFiles>;
}

/** Options that have a meaning only where the target is a folder. */
const FOLDER_OPTIONS = [
  ...(Object.keys(LAYOUT_OPTIONS) as (keyof CheckpointLayoutOptions)[]),
  'copyOtherFiles',
] as const;

/**
 * Plans the file of this path.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for options of folders
 */
export function planFile(
  path: string,
  conversion: Conversion,
  options: TargetOptions,
  verify: boolean,
): FilesToWrite {
  for (const name of FOLDER_OPTIONS) {
    const value = options[name];
    if (value === undefined || value === false) continue;
    const expected = `left out where the target is a ${SHARD_EXTENSION} file, which is one file`;
    throw argumentRangeError(name, expected, value);
  }
  const { durable = true } = options;
  requireBoolean('durable', durable);
  const { entries } = conversion;
  const totalSize = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const split = { isSharded: false, metadata: { total_size: totalSize } };
  const { file, unrecorded } = conversion.metadataOf(split);
  const layout = layOut(entries, { metadata: file });
  const write = async (): Promise<WrittenCheckpoint & CopiedFiles> => {
    await inMadeFolder(dirname(path), durable, () =>
      replaceFile(path, layout, { ...options, durable, verify }),
    );
    const written = { path, files: [basename(path)], index: null, totalSize };
    return { ...written, deleted: [], undeleted: [], copied: [], skipped: [] };
  };
  const plan = async (): Promise<CheckpointPlan & CopiedFiles> => {
    const planned = { path, files: [plannedFile(basename(path), layout)], index: null, totalSize };
    requireReplaceableFile(path);
    return { ...planned, deleted: [], copied: [], skipped: [] };
  };
  return { unrecorded, plan, write };
}

/**
 * Plans the files of a folder.
 *
 * @param source the source's index or only file, when what stands beside it is to be copied, too
 */
export function planFolder(
  folder: string | URL,
  conversion: Conversion,
  options: TargetOptions,
  verify: boolean,
  source: string | undefined,
): FilesToWrite {
  let unrecorded: readonly string[] = [];
  const checkpoint = layOutCheckpoint(tableOf(conversion.entries), options, (split) => {
    const metadata = conversion.metadataOf(split);
    unrecorded = metadata.unrecorded;
    return metadata;
  });
  const inFolder = <Result>(
    work: (locked: string, files: readonly OtherFile[]) => Promise<Result>,
  ): Promise<Result & CopiedFiles> =>
    inLockedFolder(folder, options, async (locked) => {
      const { files, skipped } =
        source === undefined
          ? NO_OTHER_FILES
          : findOtherFiles(dirname(source), locked, basename(source));
      return { ...(await work(locked, files)), copied: files.map(({ name }) => name), skipped };
    });
  const plan = (): Promise<CheckpointPlan & CopiedFiles> =>
    inFolder(async (locked, otherFiles) => planCheckpoint(locked, checkpoint, otherFiles));
  const write = (): Promise<WrittenCheckpoint & CopiedFiles> =>
    inFolder((locked, otherFiles) =>
      writeCheckpoint(locked, checkpoint, options, { verify, otherFiles }),
    );
  return { unrecorded, plan, write };
}
