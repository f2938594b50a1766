/** Opens what is to be converted. The first bytes of a file say what it is, not its name. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openSafetensorsSource } from '../checkpoint/write/safetensors-source.js';
import type { ForeignFormatError } from '../errors/errors.js';
import { fileKindOf, otherKind } from '../foreign/file-kind.js';
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
import { hasCode } from '../io/system-errors.js';
import { isConvertibleName } from '../shards/file-choice.js';
import { type ConversionSource, foreignSource, type OpenSource } from './source.js';

/** What a source may be. */
type SourceKind = 'safetensors' | 'torch' | 'numpy';

/** Options of all formats: a source may be any of them. */
export type SourceOptions = OpenTorchOptions & OpenNumpyOptions;

/** What the conversion says of its source. */
interface Opening {
  /** Whether checksums are compared, and errors of the writing name tensors. */
  readonly verify: boolean;
  readonly signal: AbortSignal | undefined;
}

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
  opening: Opening,
): Promise<ConversionSource> {
  const path = pathText('source', source);
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder) return await openAs(path, kindOfFile(path), options, opening);
  try {
    return await openSafetensors(path, options, opening);
  } catch (error) {
    const other = hasCode(error, ['SAFETENSORS_CHECKPOINT_NOT_FOUND']) ? otherIn(path) : undefined;
    if (other === undefined) throw error;
    return await openAs(other, kindOfFile(other), options, opening);
  }
}

async function openSafetensors(
  path: string,
  { maxIndexByteLength }: SourceOptions,
  { verify, signal }: Opening,
): Promise<ConversionSource> {
  return await openSafetensorsSource(path, { maxIndexByteLength, isNamed: verify, signal });
}

async function openAs(
  path: string,
  kind: SourceKind,
  options: SourceOptions,
  opening: Opening,
): Promise<ConversionSource> {
  if (kind === 'safetensors') return await openSafetensors(path, options, opening);
  if (kind === 'torch') {
    const chosen = { ...among(OPEN_TORCH_OPTIONS, options), ...COPIED };
    return foreignSource(ofTorch(openTorchCheckpoint(path, chosen)), opening.verify);
  }
  const file = openNumpy(path, { ...among(OPEN_NUMPY_OPTIONS, options), ...COPIED });
  const parts = ofParts(path, [ofWhole(file)], file.problems, undefined);
  return foreignSource(parts, opening.verify);
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
    const kind = fileKindOf(start);
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

function ofTorch(checkpoint: TorchCheckpoint | ShardedTorchCheckpoint): OpenSource {
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
): OpenSource {
  const close = (): void => {
    for (const { file } of parts) file.close();
  };
  return {
    path,
    tensors: parts.flatMap(({ tensors }) => tensors),
    problems,
    root,
    archives: new Map(parts.map(({ file }) => ForeignFile.archiveOf(file))),
    close,
  };
}
