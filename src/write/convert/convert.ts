/** `convert`: writes PyTorch checkpoints, NumPy arrays and safetensors as safetensors. */

import {
  argumentRangeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../../errors/arguments.js';
import { pairsOf } from '../../errors/named-values.js';
import { requireVariant } from '../../file/shards/file-choice.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import type { SharedMode } from '../../file/shards/shared-tensors.js';
import type { RanksFound } from '../../file/shards/verification-report.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import type { TensorInfo } from '../../file/source/tensor-info.js';
import { requireLimits } from '../../foreign/limits.js';
import { OPEN_NUMPY_OPTIONS, type OpenNumpyOptions } from '../../foreign/numpy/open-numpy.js';
import {
  OPEN_TORCH_OPTIONS,
  type OpenTorchOptions,
  TORCH_LIMITS,
  type TorchLimits,
} from '../../foreign/torch/open.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { encodeMetadata, type MetadataInput } from '../../header/header-writer.js';
import { requirePath } from '../../platform/io/paths.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import { requireTransferOptions } from '../../work/transfer.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
} from '../checkpoint/execute-plan.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS } from '../checkpoint/layout.js';
import { requireFolderName, requireLocalTarget } from '../checkpoint/locked-folder.js';
import type { CheckpointPlan, DryRun, SharedTensors } from '../checkpoint/plan.js';
import { type RewriteOptions, rewriteFile, rewriteFolder } from '../checkpoint/rewrite.js';
import { type ListedPipeline, rewritePipeline } from '../checkpoint/rewrite-pipeline.js';
import type { CopiedFiles, OtherFilesOptions } from '../checkpoint/sidecar-files.js';
import type { OverwriteOptions } from '../replacement/replaced-files.js';
import { readSelection, SELECTION_OPTIONS, type SelectionOptions } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import { openConversionSource } from './open-source.js';
import { type FoundPipeline, findPipeline, listPipeline } from './pipeline-source.js';
import type { ConversionOpening, ConversionSource, SourceTensorInfo } from './source.js';
import { requireUsed } from './used-options.js';

/** Options of `convert`. */
export interface ConversionOptions
  extends Omit<OpenTorchOptions, keyof StorageOptions>,
    Omit<OpenNumpyOptions, keyof StorageOptions>,
    SelectionOptions<SourceTensorInfo>,
    CheckpointLayoutOptions,
    OtherFilesOptions,
    OverwriteOptions,
    WriteCheckpointOptions {
  /** Limits of what the source may cost; those that do not concern its format count for nothing. */
  readonly limits?: TorchLimits | undefined;
  /**
   * Strings by key: as in `saveCheckpoint`. They win over the metadata of a safetensors source, which stays. Null
   * writes none.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /**
   * How to write tensors that share memory in a torch checkpoint. The default `dedupe` writes equal tensors once,
   * under the first name in the state dict, and records the other names in the metadata; `copy` writes all.
   */
  readonly shared?: SharedMode | undefined;
  /**
   * Compares bytes with the checksums and digests that the source declares: CRC-32 in archives, SHA-256 in the metadata
   * of safetensors (`safetensors-mmap.sha256`). New files of PyTorch and NumPy sources are also read back and compared
   * before they get their names. True by default.
   */
  readonly verify?: boolean | undefined;
  /**
   * For GGUF: `'hf'` writes a Llama, Mistral or Mixtral model as Transformers stores it: names, and the order of the
   * query and key rows. Into a folder, it also writes `config.json`, if the metadata has all of it; otherwise
   * `missingConfig` lists what is missing. Other architectures are an error. By default, names and rows are those of
   * the file.
   */
  readonly naming?: 'hf' | undefined;
}

const {
  storage: _storage,
  guard: _guard,
  access: _access,
  ...SOURCE_OPTIONS
} = { ...OPEN_TORCH_OPTIONS, ...OPEN_NUMPY_OPTIONS };

export const CONVERT_OPTIONS: OptionNames<ConversionOptions & DryRun> = {
  ...SOURCE_OPTIONS,
  ...SELECTION_OPTIONS,
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  limits: TORCH_LIMITS,
  copyOtherFiles: true,
  overwrite: true,
  metadata: true,
  shared: true,
  verify: true,
  naming: true,
};

/** Result of `convert`. */
export interface ConvertedCheckpoint
  extends WrittenCheckpoint,
    SelectionReport,
    CopiedFiles,
    SharedTensors,
    RanksFound {
  /** The keys that lead to the state dict in a torch checkpoint, given or chosen; empty for other formats. */
  readonly root: RootKeys;
  /** Keys of metadata with different values in the files of the source: at most one of the values was written. */
  readonly conflicts: readonly string[];
  /** With `naming`, into a folder: what the metadata lacks for a `config.json`; absent when one is written. */
  readonly missingConfig?: readonly string[];
}

/** Result with `dryRun: true`: without the counts that only a cast can give. */
export interface ConversionPlan
  extends CheckpointPlan,
    Omit<ConvertedCheckpoint, keyof WrittenCheckpoint | 'overflowed'> {}

/** As the public `convert`, of a path. */
export async function convert(
  source: string | URL,
  target: string | URL,
  options: ConversionOptions & DryRun = {},
): Promise<ConvertedCheckpoint | ConversionPlan> {
  const conversion = readConversion(target, options);
  const pipeline = findPipeline(requirePath('source', source));
  if (pipeline !== undefined) return await rewriteModels(pipeline, conversion);
  return await rewriteOne((opening) => openConversionSource(source, options, opening), conversion);
}

/** Opens the source of a conversion. */
type OpenSource = (opening: ConversionOpening) => Promise<ConversionSource>;

/** As `convert`, of one model, which is opened when the target is locked. */
export async function convertOpened(
  open: OpenSource,
  target: string | URL,
  options: ConversionOptions & DryRun = {},
): Promise<ConvertedCheckpoint | ConversionPlan> {
  return await rewriteOne(open, readConversion(target, options));
}

/** A conversion whose options are checked. */
interface Conversion {
  readonly target: string | URL;
  readonly options: ConversionOptions;
  readonly choices: RewriteOptions<SourceTensorInfo>;
  readonly opening: ConversionOpening;
}

/** Checks the options that apply to every source, and reads those that can be read only once. */
function readConversion(target: string | URL, options: ConversionOptions & DryRun): Conversion {
  requireLittleEndianHost();
  requireOptions(options, CONVERT_OPTIONS);
  const selection = readSelection(options);
  requireTransferOptions(options);
  requireLimits(options.limits, TORCH_LIMITS);
  const { verify = true, copyOtherFiles = false, shared = 'dedupe', signal } = options;
  requireBoolean('overwrite', options.overwrite ?? false);
  requireBoolean('verify', verify);
  requireBoolean('copyOtherFiles', copyOtherFiles);
  const metadata = metadataOption(options);
  const { naming } = options;
  if (naming !== undefined && naming !== 'hf') throw argumentRangeError('naming', "'hf'", naming);
  const path = requirePath('target', target);
  if (isFile(path)) requireFileTarget(path, options);
  else requireFolderName('target', path);
  const { dequantize } = selection;
  const choices = { ...options, selection, shared, metadata };
  return { target, options, choices, opening: { verify, dequantize, naming, signal } };
}

async function rewriteOne(
  open: OpenSource,
  { target, choices, opening }: Conversion,
): Promise<ConvertedCheckpoint | ConversionPlan> {
  let info: Pick<ConvertedCheckpoint, 'root' | 'ranksFound'> = { root: [] };
  let missingConfig: readonly string[] | undefined;
  const openSource = async (): Promise<ConversionSource> => {
    const opened = await open(opening);
    info = sourceInfo(opened);
    missingConfig = opened.missingConfig;
    return opened;
  };
  const path = requirePath('target', target);
  if (isFile(path)) return { ...(await rewriteFile(path, openSource, choices)), ...info };
  const result = await rewriteFolder(target, openSource, choices);
  return { ...result, ...info, ...(missingConfig === undefined ? {} : { missingConfig }) };
}

/** What the result includes of a source. */
export function sourceInfo({
  root = [],
  ranksFound,
}: ConversionSource): Pick<ConvertedCheckpoint, 'root' | 'ranksFound'> {
  return { root, ...(ranksFound === undefined ? {} : { ranksFound }) };
}

async function rewriteModels(
  pipeline: FoundPipeline,
  { target, options, choices, opening }: Conversion,
): Promise<ConvertedCheckpoint | ConversionPlan> {
  const { variant, limits = {} } = options;
  requirePipelineOptions(options, requirePath('target', target));
  requireVariant(variant);
  const { maxIndexByteLength } = limits;
  const listModels = (folder: string): ListedPipeline<TensorInfo> =>
    listPipeline(pipeline, folder, { ...opening, maxIndexByteLength, variant });
  const result = await rewritePipeline(target, listModels, choices);
  return { ...result, root: [] };
}

/** Whether the path of a target is that of a file. */
function isFile(path: string): boolean {
  return path.endsWith(SHARD_EXTENSION);
}

/** Options that apply only when the target is a folder. */
const FOLDER_OPTIONS = [
  ...(Object.keys(LAYOUT_OPTIONS) as (keyof CheckpointLayoutOptions)[]),
  'copyOtherFiles',
] as const;

/** Throws a RangeError `ERR_OUT_OF_RANGE` for options that need a folder, and for an address. */
export function requireFileTarget(
  path: string,
  options: CheckpointLayoutOptions & OtherFilesOptions,
): void {
  requireLocalTarget('target', path);
  for (const name of FOLDER_OPTIONS) {
    const value = options[name];
    if (value === undefined || value === false) continue;
    const expected = `left out where the target is a ${SHARD_EXTENSION} file, which is one file`;
    throw argumentRangeError(name, expected, value);
  }
}

/** Options about the names of one model. */
const ONE_MODEL_OPTIONS = ['names', 'rename', 'filenamePattern'] as const;

/** Throws a RangeError `ERR_OUT_OF_RANGE` for options that a pipeline has no use for, and for a file as its target. */
function requirePipelineOptions(options: ConversionOptions, target: string): void {
  requireUsed(options, 'safetensors');
  for (const name of ONE_MODEL_OPTIONS) {
    const value = options[name];
    if (value === undefined) continue;
    throw argumentRangeError(name, 'left out for a pipeline, whose models keep their names', value);
  }
  if (isFile(target)) {
    const expected = 'the path of a folder, which gets a folder for each model of the pipeline';
    throw argumentRangeError('target', expected, target);
  }
  if (options.copyOtherFiles === false) {
    const expected = 'left out or true for a pipeline, which always brings its other files';
    throw argumentRangeError('copyOtherFiles', expected, false);
  }
}

/** Checked here, because an index accepts more types than a header. */
export function metadataOption({
  metadata = [],
}: Pick<ConversionOptions, 'metadata'>): ReadonlyMap<string, string> | null {
  if (metadata === null) return null;
  const pairs = [...pairsOf(metadata, 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}
