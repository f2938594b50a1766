/** Opens sources: a path, a URL or an id, in any format that the library reads. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hubSettings } from '../../file/cache/environment.js';
import {
  openForInspection as openLocalForInspection,
  openUnlessPipeline,
} from '../../file/checkpoint/open.js';
import { URL_TEXT } from '../../file/hub/ids.js';
import { isDdufName } from '../../file/shards/file-names.js';
import { isOfFile } from '../../file/shards/file-problems.js';
import { partNames } from '../../file/shards/incomplete-models.js';
import type { OpenDdufOptions } from '../../foreign/dduf/open.js';
import type { OpenNumpyOptions } from '../../foreign/numpy/open-numpy.js';
import type { OpenTorchOptions } from '../../foreign/torch/open.js';
import {
  type Checkpoint,
  FormatError,
  openPipeline,
  type Pipeline,
  type RemoteCheckpoint,
  type RemotePipeline,
  type SourceChoice,
} from '../../index.js';
import type { RemoteOptions } from '../../remote/open.js';
import { detectFormat } from '../../write/convert/detect-format.js';
import { requireUsed } from '../../write/convert/used-options.js';

/** A model of a diffusers pipeline. */
export type Component = {
  /** Its folder in the pipeline. */
  readonly name: string;
} & (
  | { readonly kind: 'local'; readonly checkpoint: Checkpoint }
  | { readonly kind: 'remote'; readonly checkpoint: RemoteCheckpoint }
);

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
      readonly missing: readonly string[];
      /** Models that cannot be opened, by folder. */
      readonly failed: ReadonlyMap<string, Error>;
      readonly close: () => void;
    };

/** The parts of a distributed checkpoint in a folder. */
export interface OpenedParts {
  readonly kind: 'parts';
  /** Opens a part at each step and closes it at the next: there may be more parts than descriptors. */
  readonly components: Iterable<Component>;
  /** Parts that could not be opened, by name, as far as `components` was read. */
  readonly failed: ReadonlyMap<string, Error>;
}

/** The kind of source at a path, and the path to open. */
export type FoundAt =
  | { readonly kind: 'safetensors'; readonly path: string }
  | { readonly kind: 'torch' | 'numpy'; readonly path: string }
  | { readonly kind: 'gguf'; readonly path: string };

/** Options for opening files of torch and NumPy. */
export type ForeignChoices = Pick<OpenTorchOptions, 'root' | 'unknownGlobals'> &
  Pick<OpenNumpyOptions, 'voidDtype'>;

/** Whether a source is remote. */
export function isRemote(source: string): boolean {
  return URL_TEXT.test(source) && !source.toLowerCase().startsWith('file:');
}

/** The path of a local source. */
export function localPath(source: string): string {
  return URL_TEXT.test(source) ? fileURLToPath(source) : source;
}

/** The path of a local source, or the id of a cached one; null for a remote source. */
export function pathOf(source: string): string | null {
  if (!isRemote(source)) return localPath(source);
  return source.startsWith('hf://') && hubSettings().isOffline ? source : null;
}

/** Options of {@link openSource}. */
interface OpeningOptions {
  readonly signal: AbortSignal;
  readonly storage: 'mmap' | 'read' | undefined;
  readonly foreign?: ForeignChoices;
  readonly skipFailed?: boolean;
  readonly choice?: SourceChoice;
  /** False does not compare remote tensors with the digests of their file: for a caller that does so itself. */
  readonly verify?: boolean;
}

/**
 * Opens a source. The caller chooses the storage: mapped or read; with `skipFailed` models of a pipeline that cannot be
 * opened are left out.
 *
 * @throws Whatever `safeOpen`, `open`, `open` throw
 */
export async function openSource(source: string, options: OpeningOptions): Promise<OpenedSource> {
  const { signal, storage, foreign = {}, skipFailed, choice = {}, verify } = options;
  const path = pathOf(source);
  if (path === null) {
    const opened = await openAddress(source, { signal, skipFailed, verify, ...choice }, foreign);
    if (!('models' in opened)) return { kind: 'remote', checkpoint: opened };
    const components = Array.from(opened.models, ([name, checkpoint]) => {
      return { kind: 'remote' as const, name, checkpoint };
    });
    return pipelineOf(opened, components);
  }
  if (isDdufName(path)) return ofLocalPipeline(await openArchive(path, options));
  const found = await formatAt(path, foreign, choice);
  if (found.kind === 'gguf') return found;
  if (found.kind !== 'safetensors') return await openOtherFormat(found, foreign);
  const checkpoint = openUnlessPipeline(path, { storage, ...choice });
  if (checkpoint !== null) return { kind: 'local', checkpoint };
  const opening = { storage, skipFailed, ...choice };
  return ofLocalPipeline((await openPipeline(path, opening)) as Pipeline<Checkpoint>);
}

/**
 * Opens a file or an index that is not a model, to inspect it: a part of a distributed checkpoint, or a delta. Of a
 * folder of parts opens one at a time.
 *
 * @throws The errors of `safeOpen` and `open`
 */
export async function openForInspection(
  source: string,
  { signal, storage, foreign = {}, choice = {} }: OpeningOptions,
): Promise<OpenedSource | OpenedParts> {
  const path = pathOf(source);
  if (path === null) {
    const { openRemoteForInspection } = await import('../../remote/node/open-remote.js');
    const options = { signal, ...choice };
    return { kind: 'remote', checkpoint: await openRemoteForInspection(source, options) };
  }
  const { kind, path: found } = await formatAt(path, foreign, choice);
  if (kind === 'torch') {
    const { openTorchCheckpoint } = await import('../../foreign/torch/open.js');
    const { voidDtype: _, ...ofTorch } = foreign;
    const accepting = { ...ofTorch, acceptsIncomplete: true } as OpenTorchOptions;
    return { kind, checkpoint: openTorchCheckpoint(found, accepting) };
  }
  const options = { storage, ...choice };
  const parts = isFolder(path) ? partNames(readdirSync(path)) : [];
  const names = parts.filter((name) => name.endsWith('.safetensors'));
  if (names.length === 0) {
    return { kind: 'local', checkpoint: openLocalForInspection(path, options) };
  }
  const failed = new Map<string, Error>();
  return { kind: 'parts', components: partsOf(path, names.sort(), storage, failed), failed };
}

/** The components of {@link OpenedParts}. */
function* partsOf(
  path: string,
  names: readonly string[],
  storage: OpeningOptions['storage'],
  failed: Map<string, Error>,
): Generator<Component, void, void> {
  for (const name of names) {
    let checkpoint: Checkpoint;
    try {
      checkpoint = openLocalForInspection(join(path, name), { storage });
    } catch (error) {
      if (!isOfFile(error)) throw error;
      failed.set(name, error);
      continue;
    }
    try {
      yield { kind: 'local', name, checkpoint };
    } finally {
      checkpoint.close();
    }
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Opens a DDUF archive. Throws a RangeError for options of other formats, and for a revision. */
export async function openArchive(
  path: string,
  { storage, skipFailed, foreign = {}, choice = {} }: Omit<OpeningOptions, 'signal'>,
): Promise<Pipeline<Checkpoint>> {
  requireUsed(foreign, 'safetensors');
  const { openDduf } = await import('../../foreign/dduf/open.js');
  return openDduf(path, { storage, skipFailed, ...choice } as OpenDdufOptions);
}

function ofLocalPipeline(opened: Pipeline<Checkpoint>): OpenedSource {
  const components = Array.from(opened.models, ([name, checkpoint]) => {
    return { kind: 'local' as const, name, checkpoint };
  });
  return pipelineOf(opened, components);
}

function pipelineOf(
  opened: Pick<RemotePipeline, 'path' | 'missing' | 'failed' | 'close'>,
  components: readonly Component[],
): OpenedSource {
  const { path, missing, failed } = opened;
  return {
    kind: 'pipeline',
    path,
    components,
    missing,
    failed,
    close: () => opened.close(),
  };
}

const FOREIGN: Readonly<Record<'torch' | 'numpy' | 'gguf' | 'pipeline', string>> = {
  torch: 'a torch file',
  numpy: 'a NumPy file',
  gguf: 'a GGUF file',
  pipeline: 'a pipeline of several models',
};

/** The error for a source of a kind that the command cannot use. */
export function foreignSource(
  opened: Extract<OpenedSource | FoundAt, { readonly kind: keyof typeof FOREIGN }>,
  expected: string,
): FormatError {
  const path = 'checkpoint' in opened ? opened.checkpoint.path : opened.path;
  const message = `expected ${expected}, found ${FOREIGN[opened.kind]}`;
  return new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
}

/**
 * The open source, if it is one safetensors model.
 *
 * @throws FormatError for anything else
 */
export function requireSafetensors(
  opened: OpenedSource,
): Extract<OpenedSource, { readonly kind: 'local' | 'remote' }> {
  if (opened.kind === 'local' || opened.kind === 'remote') return opened;
  throw foreignSource(opened, 'a safetensors file or checkpoint');
}

/** Closes an open source. */
export function closeSource(opened: OpenedSource): void {
  if ('checkpoint' in opened) opened.checkpoint.close();
  if ('components' in opened) opened.close();
}

/** Opens a remote source, which is safetensors: a model or a pipeline. Throws a RangeError for options of other formats. */
export async function openAddress(
  source: string,
  options: SourceChoice &
    Pick<RemoteOptions, 'verify'> & {
      readonly signal: AbortSignal;
      readonly skipFailed: boolean | undefined;
    },
  choices: ForeignChoices,
): Promise<RemoteCheckpoint | RemotePipeline> {
  const { skipFailed, ...opening } = options;
  requireUsed(choices, 'safetensors');
  const { openRemotePipeline, openUnlessRemotePipeline } = await import(
    '../../remote/node/open-remote.js'
  );
  const model = await openUnlessRemotePipeline(source, opening);
  return model ?? (await openRemotePipeline(source, options));
}

/**
 * Finds the kind of source at a path: safetensors where a variant or a revision is chosen. Throws a RangeError for
 * options of other formats.
 */
export async function formatAt(
  path: string,
  choices: ForeignChoices,
  { variant, revision }: SourceChoice = {},
): Promise<FoundAt> {
  if (variant !== undefined || revision !== undefined) {
    requireUsed(choices, 'safetensors');
    return { kind: 'safetensors', path };
  }
  const { path: found, format, foundFormat } = await detectFormat(path);
  if (foundFormat === 'gguf') return { kind: foundFormat, path: found };
  // The error of `safeOpen` names the other formats.
  const kind = format ?? 'safetensors';
  requireUsed(choices, kind);
  return { kind, path: found };
}

/** Opens a torch or NumPy file. */
async function openOtherFormat(
  { kind, path }: Extract<FoundAt, { readonly kind: 'torch' | 'numpy' }>,
  { voidDtype, ...torch }: ForeignChoices,
): Promise<Extract<OpenedSource, { readonly kind: 'torch' | 'numpy' }>> {
  const { openNumpy } = await import('../../foreign/numpy/open-numpy.js');
  const { openTorchCheckpoint } = await import('../../foreign/torch/open.js');
  return {
    kind,
    checkpoint:
      kind === 'numpy' ? openNumpy(path, { voidDtype }) : openTorchCheckpoint(path, torch),
  };
}
