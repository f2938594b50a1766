/** What a source means: a path, a URL, an id; and what is there. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OpenTorchOptions } from '../../convert.js';
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

/** What was found. Whoever opened it closes it. */
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

/** How files of torch are opened. */
export type TorchChoices = Pick<OpenTorchOptions, 'root' | 'unknownGlobals'>;

/** Whether a path is that of the index of a checkpoint of torch in several files. */
export function isTorchIndex(path: string): boolean {
  return path.endsWith('.bin.index.json');
}

/** The variant in the name of a model's file. */
const VARIANT = /^(?:diffusion_pytorch_)?model\.([^.]+)\.safetensors(?:\.index\.json)?$/;

/** Whether a source is somewhere else. */
export function isRemote(source: string): boolean {
  return URL_TEXT.test(source) && !source.toLowerCase().startsWith('file:');
}

/** The path that a source of this machine means. */
export function localPath(source: string): string {
  return URL_TEXT.test(source) ? fileURLToPath(source) : source;
}

/**
 * Opens a source. Nothing is mapped: the options say how tensors will be used.
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
  if (isRemote(source)) return await openAddress(source, options.signal);
  const path = localPath(source);
  const { storage, torch } = options;
  if (isTorchIndex(path)) return await openOtherFormat(path, 'torch', torch);
  try {
    return { kind: 'local', checkpoint: openCheckpoint(path, { storage }) };
  } catch (error) {
    if (!(error instanceof SafetensorsError)) throw error;
    if (error.code === 'SAFETENSORS_DIFFUSERS_PIPELINE') return openPipeline(path, storage, error);
    const kind = error.path === path ? otherKindOf(error) : undefined;
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

/** The error for a source of another kind than the command can use. */
export function foreignSource(
  opened: Extract<OpenedSource, { readonly kind: keyof typeof FOREIGN }>,
  expected: string,
): ForeignFormatError {
  const path = 'checkpoint' in opened ? opened.checkpoint.path : opened.path;
  const message = `expected ${expected}, found ${FOREIGN[opened.kind]}`;
  return new ForeignFormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
}

/**
 * What was found, when it is one model of safetensors.
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

async function openAddress(source: string, signal: AbortSignal): Promise<OpenedSource> {
  const { openRemote } = await import('../../remote.js');
  try {
    return { kind: 'remote', checkpoint: await openRemote(source, { signal }) };
  } catch (error) {
    const isOffline = error instanceof SafetensorsError && error.code === 'SAFETENSORS_OFFLINE';
    if (!isOffline || !source.startsWith('hf://')) throw error;
    return { kind: 'local', checkpoint: openCheckpoint(source) };
  }
}

/** What else is opened or named; the library's error says what the first bytes are. */
function otherKindOf({
  foundFormat,
  path,
}: SafetensorsError): 'torch' | 'numpy' | 'gguf' | undefined {
  if (foundFormat === 'zip') return /\.npz$/i.test(path ?? '') ? 'numpy' : 'torch';
  if (foundFormat === 'pickle') return 'torch';
  return foundFormat === 'numpy' || foundFormat === 'gguf' ? foundFormat : undefined;
}

async function openOtherFormat(
  path: string,
  kind: 'torch' | 'numpy',
  torch: TorchChoices | undefined,
): Promise<OpenedSource> {
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

/** Names in a folder; none of what is no folder. */
function folderNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Undefined for what has no weights. */
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
