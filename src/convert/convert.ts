/** `convert`: checkpoints of torch, arrays of NumPy and safetensors to safetensors. */

import { basename, dirname } from 'node:path';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from '../checkpoint/write/execute-plan.js';
import { inLockedFolder } from '../checkpoint/write/locked-folder.js';
import {
  type CopiedFiles,
  findOtherFiles,
  NO_OTHER_FILES,
  type OtherFiles,
  type OtherFilesOptions,
} from '../checkpoint/write/other-files.js';
import {
  type AnyEntry,
  type CheckpointLayoutOptions,
  LAYOUT_OPTIONS,
  planCheckpoint,
  tableOf,
} from '../checkpoint/write/plan.js';
import {
  argumentRangeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../errors/arguments.js';
import { pairsOf } from '../errors/named-values.js';
import type { ForeignTensor } from '../foreign/foreign-tensor.js';
import { OPEN_NUMPY_OPTIONS, type OpenNumpyOptions } from '../foreign/numpy/open-numpy.js';
import { OPEN_TORCH_OPTIONS, type OpenTorchOptions } from '../foreign/torch/open.js';
import type { RootKeys } from '../foreign/torch/roots.js';
import { requireLittleEndianHost } from '../format/dtype.js';
import { encodeMetadata, layOut, type MetadataInput } from '../format/header-writer.js';
import { pathText } from '../io/paths.js';
import { requireTransferOptions } from '../io/transfer.js';
import { replaceFile } from '../save/replace-file.js';
import type { CastReport } from '../selection/cast-report.js';
import { readSelection, SELECTION_OPTIONS, type SelectionOptions } from '../selection/options.js';
import { Selection } from '../selection/select.js';
import { SHARD_EXTENSION } from '../shards/shard-paths.js';
import { planSharing, type SharedMode } from '../shards/shared-tensors.js';
import type { SplitSummary } from '../shards/split.js';
import type { StorageOptions } from '../storage/open.js';
import { convertedTensors } from './entries.js';
import { type ConvertedMetadata, convertedMetadata } from './metadata.js';
import { openSource } from './open-source.js';
import type { ConversionSource, SourceTensor, SourceTensorInfo } from './source.js';
import { SourceBytes } from './source-bytes.js';

/** Options of {@link convert}. */
export interface ConversionOptions
  extends Omit<OpenTorchOptions, keyof StorageOptions>,
    Omit<OpenNumpyOptions, keyof StorageOptions>,
    SelectionOptions<SourceTensorInfo>,
    CheckpointLayoutOptions,
    OtherFilesOptions,
    WriteCheckpointOptions {
  /**
   * Strings by key: as in `saveCheckpoint`. They win over what a safetensors source has.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /**
   * What to do with tensors that share memory in a checkpoint of torch. By default, `dedupe`, equal ones are
   * written once, under the name that comes first in the state dict, and the other names are recorded in the
   * metadata; `copy` writes all.
   */
  readonly shared?: SharedMode | undefined;
  /**
   * Compares the checksums of what is taken of the source, and reads again what was written and compares it,
   * all before the new files take their places. True by default.
   */
  readonly verify?: boolean | undefined;
}

const {
  storage: _storage,
  guard: _guard,
  ...SOURCE_OPTIONS
} = { ...OPEN_TORCH_OPTIONS, ...OPEN_NUMPY_OPTIONS };

const CONVERT_OPTIONS: OptionNames<ConversionOptions> = {
  ...SOURCE_OPTIONS,
  ...SELECTION_OPTIONS,
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  copyOtherFiles: true,
  metadata: true,
  shared: true,
  verify: true,
};

/** Result of {@link convert}. */
export interface ConvertedCheckpoint extends WrittenCheckpoint, CastReport, CopiedFiles {
  /** For every name that was not written, the name of the tensor that was. */
  readonly dropped: ReadonlyMap<string, string>;
  /** Dropped names that are not in the metadata, because the key has another meaning there. */
  readonly unrecorded: readonly string[];
  /** With `dedupe`: groups of names that have bytes in common, which were written more than once. */
  readonly overlaps: readonly (readonly string[])[];
  /** The keys that lead to the state dict in a checkpoint of torch: as given, or chosen; empty otherwise. */
  readonly root: RootKeys;
}

/**
 * Converts a checkpoint to safetensors, off the event loop. Nothing of the source is run.
 *
 * `source` is a checkpoint of torch (`.pt`, `.pth`, `.bin`, `.ckpt`; its index when it is in several files),
 * arrays of NumPy (`.npz`, `.npy`), a safetensors file, or a folder with one of these. Its first bytes say
 * what it is. `target` is the path of a `.safetensors` file, or of a folder, which gets shards and an index
 * when the tensors are larger than `maxShardSize`.
 *
 * Bytes go through memory in pieces of 1 MiB, on the thread pool: read, gathered, swapped, inflated or cast,
 * written, read again and compared. Without `verify` the kernel copies what the source has as it stands. So
 * little memory is needed, whatever the size: only a compressed storage of which a tensor is a part, or strided,
 * is in memory as a whole. Files are always read, never mapped, as with `reshard`.
 *
 * A tensor that safetensors cannot hold is offered to `names` and `select` with the dtype null; it is no
 * problem when it is left out. Everything that is wrong with names, dtypes and shapes is found before the first
 * byte is written, and the new files take their places as with `saveFile` and `saveCheckpoint`: whole, or not
 * at all. With `copyOtherFiles` a folder also gets what stands beside the source, as with `reshard`.
 *
 * @throws ForeignFormatError as `openTorchCheckpoint` and `openNumpy`; `SAFETENSORS_CHECKSUM_MISMATCH` when
 *   the source has other bytes than its checksums say
 * @throws SelectionError for several problems with what was selected; one alone is thrown as it is
 * @throws SafetensorsError `SAFETENSORS_VERIFICATION_FAILED`, `SAFETENSORS_SHARED_TENSORS`; as `saveFile` and
 *   `saveCheckpoint`
 *
 * @example
 * ```ts
 * const { files, root } = await convert('model.ckpt', 'converted.safetensors', { dtype: 'BF16' });
 * console.log(files, root); // → [ 'converted.safetensors' ] [ 'state_dict' ]
 * ```
 */
export async function convert(
  source: string | URL,
  target: string | URL,
  options: ConversionOptions = {},
): Promise<ConvertedCheckpoint> {
  requireLittleEndianHost();
  requireOptions(options, CONVERT_OPTIONS);
  const selection = readSelection(options);
  requireTransferOptions(options);
  const { verify = true, copyOtherFiles = false } = options;
  requireBoolean('verify', verify);
  requireBoolean('copyOtherFiles', copyOtherFiles);
  const targetPath = pathText('target', target);
  const given = metadataOf(options);
  const { signal } = options;
  const opened = await openSource(source, options, signal);
  try {
    const bytes = new SourceBytes(opened.archives, verify);
    const conversion = planConversion(opened, bytes, selection, options, given);
    const { write, unrecorded } = targetPath.endsWith(SHARD_EXTENSION)
      ? planFile(targetPath, conversion, options, verify)
      : planFolder(target, conversion, options, verify, copyOtherFiles ? opened.path : undefined);
    await bytes.verifyOthers(conversion.sources, signal);
    const written = await write();
    const { dropped, overlaps, cast, overflowed } = conversion;
    const root = opened.root ?? [];
    return { ...written, dropped, overlaps, unrecorded, cast, overflowed, root };
  } finally {
    opened.close();
  }
}

/** What is to be written. */
interface Conversion {
  readonly entries: readonly AnyEntry[];
  /** The tensors of the source that become these. */
  readonly sources: readonly ForeignTensor[];
  readonly dropped: ReadonlyMap<string, string>;
  readonly overlaps: readonly (readonly string[])[];
  readonly cast: readonly string[];
  /** Counted while the tensors are written. */
  readonly overflowed: ReadonlyMap<string, number>;
  metadataOf(split: SplitSummary): ConvertedMetadata;
}

/** The files that are to be written. */
interface PlannedFiles {
  /** Names that could not be recorded. */
  readonly unrecorded: readonly string[];
  write(): Promise<WrittenCheckpoint & CopiedFiles>;
}

/** Options that have a meaning only where the target is a folder. */
const FOLDER_OPTIONS = [
  ...(Object.keys(LAYOUT_OPTIONS) as (keyof CheckpointLayoutOptions)[]),
  'copyOtherFiles',
] as const;

/** Finds all that is wrong with the selection before anything is written. */
function planConversion(
  source: ConversionSource,
  bytes: SourceBytes,
  selectionOptions: SelectionOptions<SourceTensorInfo>,
  options: ConversionOptions,
  given: ReadonlyMap<string, string>,
): Conversion {
  const selection = new Selection(selectionOptions, source);
  const selected = selection.of(
    source.tensors.map((facts): SourceTensor => {
      const { name, dtype, shape } = facts;
      return { name, info: { dtype, shape }, facts };
    }),
    source.problems.map((problem) => ({
      name: problem.tensor as string,
      info: { dtype: null, shape: [] },
      problem,
    })),
  );
  const overflowed = new Map<string, number>();
  const tensors = convertedTensors(selected, bytes, overflowed);
  const memories = tensors.map(({ memory }) => memory);
  const { dropped, overlaps } = planSharing(memories, options.shared ?? 'dedupe', 'order');
  const { metadata } = source;
  const metadataOf = selection.metadataOf(selected);
  const sources = {
    source: metadata && {
      files: metadata.files.map(metadataOf),
      index: metadata.index && {
        metadata: metadataOf(metadata.index.metadata),
        jsonKeys: metadata.index.jsonKeys,
      },
    },
    given,
    dropped,
  };
  const kept = tensors.filter(({ entry }) => !dropped.has(entry.name));
  return {
    entries: kept.map(({ entry }) => entry),
    sources: kept.map(({ facts }) => facts),
    dropped,
    overlaps,
    cast: selected.flatMap(({ name, cast }) => (cast === null || dropped.has(name) ? [] : name)),
    overflowed,
    metadataOf: (split) => convertedMetadata(sources, split),
  };
}

function planFile(
  path: string,
  conversion: Conversion,
  options: ConversionOptions,
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
    await replaceFile(path, layout, { ...options, durable, verify });
    const written = { path, files: [basename(path)], index: null, totalSize };
    return { ...written, deleted: [], undeleted: [], copied: [], skipped: [] };
  };
  return { unrecorded, write };
}

/** With the path of the source, of its index or only file, the other files of its folder are copied. */
function planFolder(
  folder: string | URL,
  conversion: Conversion,
  options: ConversionOptions,
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
      const others = source === undefined ? NO_OTHER_FILES : filesBeside(source, locked);
      const extras = { verify, otherFiles: others.files };
      const written = await writeCheckpoint(locked, plan, options, extras);
      const copied = others.files.map(({ name }) => name);
      return { ...written, copied, skipped: others.skipped };
    });
  return { unrecorded, write };
}

/** `.npy` is no extension of weights: the source may be among what its folder has besides. */
function filesBeside(source: string, target: string): OtherFiles {
  const { files, skipped } = findOtherFiles(dirname(source), target);
  const own = basename(source);
  return {
    files: files.filter(({ name }) => name !== own),
    skipped: skipped.filter((name) => name !== own),
  };
}

/** Checked here, because an index accepts more than headers do. */
function metadataOf({ metadata }: ConversionOptions): ReadonlyMap<string, string> {
  if (metadata === null || metadata === undefined) return new Map();
  const pairs = [...pairsOf(metadata, 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}
