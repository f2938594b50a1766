/** Opens sources: a path, a URL or an id, in any format that the library reads. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OpenTorchOptions } from '../../convert.js';
import { hubSettings } from '../../hub/environment.js';
import { URL_TEXT } from '../../hub/ids.js';
import {
  type Checkpoint,
  ForeignFormatError,
  openCheckpoint,
  SafetensorsError,
} from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';

/** A model of a diffusers pipeline. */
export interface Component {
  /** Its folder in the pipeline. */
  readonly name: string;
  readonly checkpoint: Checkpoint;
}

/** An open source. The caller closes it. */
export type OpenedSource =
  | { readonly kind: 'local'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'torch' | 'numpy'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'remote'; readonly checkpoint: RemoteCheckpoint }
  | { readonly kind: 'gguf'; readonly path: string }
  | {
      readonly kind: 'pipeline';
      readonly path: string;
      readonly components: readonly Component[];
    };

/** A format besides safetensors that the library recognises. */
type OtherFormat = 'torch' | 'numpy' | 'gguf';

/** The end of the path of a torch checkpoint's index. */
const TORCH_INDEX = '.bin.index.json';

/** Options for opening files of torch. */
export type TorchChoices = Pick<OpenTorchOptions, 'root' | 'unknownGlobals'>;

/** The variant in the name of a model's file. */
const VARIANT = /^(?:diffusion_pytorch_)?model\.([^.]+)\.safetensors(?:\.index\.json)?$/;

/** Whether a source is remote. */
export function isRemote(source: string): boolean {
  return URL_TEXT.test(source) && !source.toLowerCase().startsWith('file:');
}

/** The path of a local source. */
export function localPath(source: string): string {
  return URL_TEXT.test(source) ? fileURLToPath(source) : source;
}

/** The path of a local source, or the id of a cached one; null for a source that is fetched. */
export function pathOf(source: string): string | null {
  if (!isRemote(source)) return localPath(source);
  return source.startsWith('hf://') && hubSettings().isOffline ? source : null;
}

/**
 * Opens a source. The caller chooses the storage: mapped or read.
 *
 * @throws Whatever `openCheckpoint`, `openRemote`, `openTorchCheckpoint` and `openNumpy` throw
 */
export async function openSource(
  source: string,
  options: {
    readonly signal: AbortSignal;
    readonly storage: 'mmap' | 'read' | undefined;
    readonly torch?: TorchChoices;
  },
): Promise<OpenedSource> {
  const { signal, storage, torch } = options;
  const path = pathOf(source);
  if (path === null) return { kind: 'remote', checkpoint: await openAddress(source, signal) };
  if (path.endsWith(TORCH_INDEX)) return await openOtherFormat(path, 'torch', torch);
  try {
    return { kind: 'local', checkpoint: openCheckpoint(path, { storage }) };
  } catch (error) {
    if (!(error instanceof SafetensorsError)) throw error;
    if (error.code === 'SAFETENSORS_DIFFUSERS_PIPELINE') return openPipeline(path, storage, error);
    const kind = otherFormatOf(path, error);
    if (kind === undefined) throw error;
    return kind === 'gguf' ? { kind, path } : await openOtherFormat(path, kind, torch);
  }
}

const FOREIGN: Readonly<Record<'torch' | 'numpy' | 'gguf' | 'pipeline', string>> = {
  torch: 'a file of torch',
  numpy: 'a file of NumPy',
  gguf: 'a GGUF file',
  pipeline: 'a pipeline of several models',
};

/** The error for a source of a kind that the command cannot use. */
export function foreignSource(
  opened: Extract<OpenedSource, { readonly kind: keyof typeof FOREIGN }>,
  expected: string,
): ForeignFormatError {
  const path = 'checkpoint' in opened ? opened.checkpoint.path : opened.path;
  const message = `expected ${expected}, found ${FOREIGN[opened.kind]}`;
  return new ForeignFormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
}

/**
 * The open source, if it is one safetensors model.
 *
 * @throws ForeignFormatError for anything else
 */
export function requireSafetensors(
  opened: OpenedSource,
): Extract<OpenedSource, { readonly kind: 'local' | 'remote' }> {
  if (opened.kind === 'local' || opened.kind === 'remote') return opened;
  throw foreignSource(opened, 'a safetensors file or checkpoint');
}

/** Closes what was opened. */
export function closeSource(opened: OpenedSource): void {
  if ('checkpoint' in opened) opened.checkpoint.close();
  if ('components' in opened) for (const { checkpoint } of opened.components) checkpoint.close();
}

/** Opens a remote source. */
export async function openAddress(source: string, signal: AbortSignal): Promise<RemoteCheckpoint> {
  const { openRemote } = await import('../../remote.js');
  return await openRemote(source, { signal });
}

/** The format of the file at a path; undefined for safetensors, folders and unknown formats. */
export function otherFormatAt(path: string): OtherFormat | undefined {
  if (path.endsWith(TORCH_INDEX)) return 'torch';
  try {
    openCheckpoint(path, { storage: 'read' }).close();
  } catch (error) {
    if (error instanceof SafetensorsError) return otherFormatOf(path, error);
  }
  return undefined;
}

/** The format of a file by the error of `openCheckpoint`, which names the format of the first bytes. */
function otherFormatOf(path: string, error: SafetensorsError): OtherFormat | undefined {
  const { foundFormat } = error;
  // For a folder or an id the error is about a file inside.
  if (error.path !== path) return undefined;
  if (foundFormat === 'zip') return /\.npz$/i.test(path) ? 'numpy' : 'torch';
  if (foundFormat === 'pickle') return 'torch';
  return foundFormat === 'numpy' || foundFormat === 'gguf' ? foundFormat : undefined;
}

/** Opens a file of torch or NumPy. */
export async function openOtherFormat(
  path: string,
  kind: 'torch' | 'numpy',
  torch?: TorchChoices,
): Promise<Extract<OpenedSource, { readonly kind: 'torch' | 'numpy' }>> {
  const { openNumpy, openTorchCheckpoint } = await import('../../convert.js');
  return {
    kind,
    checkpoint: kind === 'numpy' ? openNumpy(path) : openTorchCheckpoint(path, torch),
  };
}

/** The models of a pipeline, each as `openCheckpoint` chooses, else by its only variant. */
function openPipeline(
  folder: string,
  storage: 'mmap' | 'read' | undefined,
  error: SafetensorsError,
): OpenedSource {
  const components: Component[] = [];
  for (const name of folderNames(folder).sort()) {
    const checkpoint = openComponent(join(folder, name), storage);
    if (checkpoint !== undefined) components.push({ name, checkpoint });
  }
  if (components.length === 0) throw error;
  return { kind: 'pipeline', path: folder, components };
}

/** Names in a folder; empty when the path is no readable folder. */
function folderNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Opens a component; undefined for a folder without weights. */
function openComponent(
  folder: string,
  storage: 'mmap' | 'read' | undefined,
): Checkpoint | undefined {
  const names = folderNames(folder);
  if (names.length === 0) return undefined;
  const variants = names.map((name) => VARIANT.exec(name)?.[1]).filter((name) => name);
  for (const variant of [undefined, ...new Set(variants)]) {
    try {
      return openCheckpoint(folder, { storage, variant });
    } catch (error) {
      const isMissing =
        error instanceof SafetensorsError && error.code === 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
      if (!isMissing) throw error;
    }
  }
  return undefined;
}
