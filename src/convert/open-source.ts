/** Opens what is to be converted. The first bytes of a file say what it is, not its name. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint } from '../checkpoint/checkpoint.js';
import { openSafetensorsSource } from '../checkpoint/write/safetensors-source.js';
import { fileKindOf, otherKind } from '../foreign/file-kind.js';
import type { ForeignShard } from '../foreign/foreign-shard.js';
import {
  OPEN_NUMPY_OPTIONS,
  type OpenNumpyOptions,
  openNumpy,
} from '../foreign/numpy/open-numpy.js';
import { lookInto } from '../foreign/open-file.js';
import {
  OPEN_TORCH_OPTIONS,
  type OpenTorchOptions,
  openTorchCheckpoint,
} from '../foreign/torch/open.js';
import type { RootKeys } from '../foreign/torch/roots.js';
import { firstEntryName } from '../foreign/zip/local-header.js';
import { describeForeignFormat } from '../format/foreign-formats.js';
import { pathText } from '../io/paths.js';
import { hasCode } from '../io/system-errors.js';
import { isConvertibleName } from '../shards/file-choice.js';
import { type ConversionSource, conversionSource, type OpenSource } from './source.js';

/** What a source may be. */
type SourceKind = 'safetensors' | 'torch' | 'numpy';

/** Options of all formats: a source may be any of them. */
export type ConversionSourceOptions = OpenTorchOptions & OpenNumpyOptions;

/** What the conversion says of its source. */
interface ConversionOpening {
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
export async function openConversionSource(
  source: string | URL,
  options: ConversionSourceOptions,
  opening: ConversionOpening,
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
  { maxIndexByteLength }: ConversionSourceOptions,
  { verify, signal }: ConversionOpening,
): Promise<ConversionSource> {
  return await openSafetensorsSource(path, { maxIndexByteLength, isNamed: verify, signal });
}

async function openAs(
  path: string,
  kind: SourceKind,
  options: ConversionSourceOptions,
  opening: ConversionOpening,
): Promise<ConversionSource> {
  if (kind === 'safetensors') return await openSafetensors(path, options, opening);
  if (kind === 'torch') {
    const chosen = { ...among(OPEN_TORCH_OPTIONS, options), ...COPIED };
    const opened = openTorchCheckpoint(path, chosen);
    return conversionSource(openFilesOf(opened, opened.root), opening.verify);
  }
  const arrays = openNumpy(path, { ...among(OPEN_NUMPY_OPTIONS, options), ...COPIED });
  return conversionSource(openFilesOf(arrays, undefined), opening.verify);
}

/** Those of the options that have these names. */
function among(
  names: Readonly<Record<string, true>>,
  options: ConversionSourceOptions,
): ConversionSourceOptions {
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

function openFilesOf(checkpoint: Checkpoint, root: RootKeys | undefined): OpenSource {
  const parts = Checkpoint.partsOf(checkpoint) as [ForeignShard, string[]][];
  const { path, problems } = checkpoint;
  return {
    ...{ path, problems, root },
    tensors: parts.flatMap(([{ contents }, names]) =>
      names.map((name) => contents.tensor(contents.find(name))),
    ),
    archives: new Map(parts.map(([{ archive }]) => archive)),
    close: () => checkpoint.close(),
  };
}
