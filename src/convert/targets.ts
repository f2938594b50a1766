/** What a conversion writes into: one file, or a folder. */

import { basename, dirname } from 'node:path';
import {
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from '../checkpoint/write/execute-plan.js';
import { inLockedFolder, inMadeFolder } from '../checkpoint/write/locked-folder.js';
import {
  type CopiedFiles,
  findOtherFiles,
  NO_OTHER_FILES,
  type OtherFilesOptions,
} from '../checkpoint/write/other-files.js';
import {
  type CheckpointLayoutOptions,
  LAYOUT_OPTIONS,
  planCheckpoint,
  tableOf,
} from '../checkpoint/write/plan.js';
import { argumentRangeError, requireBoolean } from '../errors/arguments.js';
import { layOut } from '../format/header-writer.js';
import { replaceFile } from '../save/replace-file.js';
import { SHARD_EXTENSION } from '../shards/shard-paths.js';
import type { Conversion } from './plan.js';

/** How the files are written. */
type TargetOptions = CheckpointLayoutOptions & OtherFilesOptions & WriteCheckpointOptions;

/** The files that are to be written. */
export interface PlannedFiles {
  /** Names that could not be recorded. */
  readonly unrecorded: readonly string[];
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
): PlannedFiles {
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
  return { unrecorded, write };
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
): PlannedFiles {
  let unrecorded: readonly string[] = [];
  const plan = planCheckpoint(tableOf(conversion.entries), options, (split) => {
    const metadata = conversion.metadataOf(split);
    unrecorded = metadata.unrecorded;
    return metadata;
  });
  const write = (): Promise<WrittenCheckpoint & CopiedFiles> =>
    inLockedFolder(folder, options, async (locked) => {
      const others =
        source === undefined
          ? NO_OTHER_FILES
          : findOtherFiles(dirname(source), locked, basename(source));
      const extras = { verify, otherFiles: others.files };
      const written = await writeCheckpoint(locked, plan, options, extras);
      const copied = others.files.map(({ name }) => name);
      return { ...written, copied, skipped: others.skipped };
    });
  return { unrecorded, write };
}
