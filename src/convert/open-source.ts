/** Opens what is to be converted. The first bytes of a file say what it is, not its name. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openShards } from '../checkpoint/open.js';
import { SourceTensors } from '../checkpoint/write/reshard-source.js';
import type { ForeignFormatError } from '../errors/errors.js';
import { kindOf, otherKind } from '../foreign/file-kind.js';
import { ForeignFile } from '../foreign/foreign-file.js';
import type { ForeignTensor } from '../foreign/foreign-tensor.js';
import {
  OPEN_NUMPY_OPTIONS,
  type OpenNumpyOptions,
  openNumpy,
} from '../foreign/numpy/open-numpy.js';
import { lookInto } from '../foreign/open-file.js';
import type { TorchCheckpoint } from '../foreign/torch/checkpoint.js';
import {
  OPEN_TORCH_OPTIONS,
  type OpenTorchOptions,
  openTorchCheckpoint,
} from '../foreign/torch/open.js';
import type { RootKeys } from '../foreign/torch/roots.js';
import { ShardedTorchCheckpoint } from '../foreign/torch/sharded.js';
import { firstEntryName } from '../foreign/zip/local-header.js';
import { describeForeignFormat } from '../format/foreign-formats.js';
import { pathText } from '../io/paths.js';
import { runAsync } from '../io/steps.js';
import { hasCode } from '../io/system-errors.js';
import { isConvertibleName } from '../shards/file-choice.js';
import { type ConversionSource, sourceOf } from './source.js';

/** What a source may be. */
type SourceKind = 'safetensors' | 'torch' | 'numpy';

/** Options of all formats: a source may be any of them. */
export type SourceOptions = OpenTorchOptions & OpenNumpyOptions;

/** As `reshard`: no need to map files that are only copied; their pages would count as memory of the process. */
const COPIED = { storage: 'read' } as const;

/** Names that checkpoints of torch have in folders; an index comes before a file. */
const TORCH_NAMES: readonly string[] = [
  'pytorch_model.bin.index.json',
  'diffusion_pytorch_model.bin.index.json',
  'pytorch_model.bin',
  'diffusion_pytorch_model.bin',
];
const TORCH_INDEX = /\.bin\.index\.json$/;

/**
 * Opens a file, an index, a folder, or a repository in the Hub's cache. In a folder a safetensors checkpoint
 * comes before one of torch.
 *
 * @throws As `openCheckpoint`, `openTorchCheckpoint` and `openNumpy`; `signal.reason`
 */
export async function openSource(
  source: string | URL,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): Promise<ConversionSource> {
  const path = pathText('source', source);
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder) return await openAs(path, kindOfFile(path), options, signal);
  try {
    return await openSafetensors(path, options, signal);
  } catch (error) {
    const other = hasCode(error, ['SAFETENSORS_CHECKPOINT_NOT_FOUND']) ? otherIn(path) : undefined;
    if (other === undefined) throw error;
    return await openAs(other, kindOfFile(other), options, signal);
  }
}

async function openAs(
  path: string,
  kind: SourceKind,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): Promise<ConversionSource> {
  if (kind === 'safetensors') return await openSafetensors(path, options, signal);
  if (kind === 'torch') {
    return ofTorch(openTorchCheckpoint(path, { ...among(OPEN_TORCH_OPTIONS, options), ...COPIED }));
  }
  const file = openNumpy(path, { ...among(OPEN_NUMPY_OPTIONS, options), ...COPIED });
  return ofParts(path, [ofWhole(file)], file.problems, undefined);
}

/** Those of the options that have these names. */
function among(names: Readonly<Record<string, true>>, options: SourceOptions): SourceOptions {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(names, name)));
}

/** The checkpoint of torch in a folder, by its usual name, or the only file of another format. */
function otherIn(folder: string): string | undefined {
  const names = readdirSync(folder);
  const usual = TORCH_NAMES.find((name) => names.includes(name));
  const others = names.filter(isConvertibleName);
  const name = usual ?? (others.length === 1 ? others[0] : undefined);
  return name === undefined ? undefined : join(folder, name);
}

/** What cannot be looked into is left to those who open it, and say why. */
function kindOfFile(path: string): SourceKind {
  if (TORCH_INDEX.test(path)) return 'torch';
  const found = statSync(path, { throwIfNoEntry: false });
  // Not the id of a repository.
  if (found === undefined && isConvertibleName(path)) return 'torch';
  if (path.endsWith('.json') || found?.isFile() !== true) return 'safetensors';
  return lookInto(path, (start) => {
    const kind = kindOf(start);
    if (kind === 'npy') return 'numpy';
    if (kind === undefined && isOtherFormat(start)) {
      throw otherKind(start, 'a checkpoint or arrays', { path });
    }
    if (kind !== 'zip') return kind === 'pickle' ? 'torch' : 'safetensors';
    // Whoever opens it reads the directory. Arrays of NumPy are usually called so, and records of torch have a
    // folder.
    const name = firstEntryName(start);
    const isNumpy = name.endsWith('.npy') || (path.endsWith('.npz') && !name.includes('/'));
    return isNumpy ? 'numpy' : 'torch';
  });
}

/** Known by its first bytes, or no safetensors file: no header is of 2^48 bytes. */
function isOtherFormat(start: Uint8Array): boolean {
  const isTooLong = (start[6] ?? 0) !== 0 || (start[7] ?? 0) !== 0;
  return isTooLong || describeForeignFormat(start) !== null;
}

/** An open file, and the tensors of it that are meant. */
interface Part {
  readonly file: ForeignFile;
  readonly tensors: readonly ForeignTensor[];
}

function ofWhole(file: ForeignFile): Part {
  return { file, tensors: [...ForeignFile.factsOf(file).values()] };
}

function ofTorch(checkpoint: TorchCheckpoint | ShardedTorchCheckpoint): ConversionSource {
  const { problems } = checkpoint;
  if (!(checkpoint instanceof ShardedTorchCheckpoint)) {
    return ofParts(checkpoint.path as string, [ofWhole(checkpoint)], problems, checkpoint.root);
  }
  const parts = Array.from(ShardedTorchCheckpoint.partsOf(checkpoint), ([file, names]) => {
    const meant = new Set(names);
    const { tensors } = ofWhole(file);
    return { file, tensors: tensors.filter(({ name }) => meant.has(name)) };
  });
  return ofParts(checkpoint.path, parts, problems, checkpoint.root);
}

function ofParts(
  path: string,
  parts: readonly Part[],
  problems: readonly ForeignFormatError[],
  root: RootKeys | undefined,
): ConversionSource {
  const close = (): void => {
    for (const { file } of parts) file.close();
  };
  return sourceOf({
    path,
    tensors: parts.flatMap(({ tensors }) => tensors),
    problems,
    root,
    metadata: null,
    archives: new Map(parts.map(({ file }) => ForeignFile.archiveOf(file))),
    close,
  });
}

async function openSafetensors(
  path: string,
  { maxIndexByteLength }: SourceOptions,
  signal: AbortSignal | undefined,
): Promise<ConversionSource> {
  const shards = await runAsync(openShards(path, { maxIndexByteLength, ...COPIED }), signal);
  try {
    const tensors = new SourceTensors(shards);
    const { index, path: label } = shards.files;
    return sourceOf({
      path: label,
      tensors: Array.from(tensors.byteLengths, (_, number) => foreignTensor(tensors, number)),
      problems: [],
      root: undefined,
      metadata: { files: Array.from(shards, (file) => file.metadata), index },
      archives: new Map(),
      close: () => shards.close({}),
    });
  } catch (error) {
    shards.close({});
    throw error;
  }
}

/** The format has no tensors that share bytes. */
function foreignTensor(tensors: SourceTensors, number: number): ForeignTensor {
  const [header, entry] = [tensors.header(number), tensors.entry(number)];
  const { storage, position } = tensors.payload(number);
  const byteLength = tensors.byteLengths[number] as number;
  const data = { storage, begin: position, byteLength };
  return {
    name: header.name(entry),
    dtype: header.dtype(entry),
    shape: header.shape(entry),
    storage: data,
    storageByteLength: byteLength,
    byteOffset: 0,
    data,
  };
}
