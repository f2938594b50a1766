/** Opens sources: a path, a URL or an id, in any format that the library reads. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hubSettings } from '../../file/cache/environment.js';
import { isPipelineAt } from '../../file/checkpoint/find-source.js';
import { openForInspection as openLocalForInspection } from '../../file/checkpoint/open.js';
import { URL_PATTERN } from '../../file/hub/ids.js';
import { isDdufName } from '../../file/shards/file-names.js';
import { isOfFile } from '../../file/shards/file-problems.js';
import { METADATA_FILE, partNames } from '../../file/shards/incomplete-models.js';
import type { OpenTorchOptions } from '../../foreign/torch/open.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  FormatError,
  type OpenSourceOptions,
  open,
  openPipeline,
  type Pipeline,
  type RemotePipeline,
  type SourceChoice,
} from '../../index.js';
import { runAsync } from '../../work/work.js';
import { detectFormat } from '../../write/convert/detect-format.js';
import { requireUsed } from '../../write/convert/used-options.js';

/** An open source: a model, or several by their folders. The caller closes it. */
export type OpenedSource = AnyCheckpoint | OpenedPipeline;

export type OpenedPipeline = Pipeline<Checkpoint> | RemotePipeline;

/** The parts of a distributed checkpoint in a folder. */
export interface OpenedParts {
  /** Opens a part at each step and closes it at the next: there may be more parts than descriptors. */
  readonly parts: Iterable<readonly [name: string, part: Checkpoint]>;
  /** Parts that could not be opened, by name, as far as `parts` was read. */
  readonly failed: ReadonlyMap<string, Error>;
}

/** Options for opening files of torch and NumPy. */
export type ForeignChoices = Pick<OpenSourceOptions, 'root' | 'unknownGlobals' | 'voidDtype'>;

/** Options of {@link openSource}. */
export interface OpeningOptions {
  readonly signal: AbortSignal;
  /** Of local sources; mapped if possible by default. */
  readonly storage?: 'read' | undefined;
  readonly foreign?: ForeignChoices;
  /** Whether to leave out models of a pipeline that cannot be opened. */
  readonly skipFailed?: boolean;
  readonly choice?: SourceChoice;
  /** False does not compare remote tensors with the digests of their file: for a caller that does so itself. */
  readonly verify?: false;
}

/** Whether a source is remote. */
export function isRemote(source: string): boolean {
  return URL_PATTERN.test(source) && !source.toLowerCase().startsWith('file:');
}

/** The path of a local source. */
export function localPath(source: string): string {
  return URL_PATTERN.test(source) ? fileURLToPath(source) : source;
}

/** The path of a local source, or the address of a remote one, as the library takes it. */
export function placeOf(source: string): string {
  return isRemote(source) ? source : localPath(source);
}

/** The path of a local source, or the id of a cached one; null for a remote source. */
export function pathOf(source: string): string | null {
  if (!isRemote(source)) return localPath(source);
  return source.startsWith('hf://') && hubSettings().isOffline ? source : null;
}

/**
 * Opens a model or a pipeline.
 *
 * @throws As `open` and `openPipeline`
 */
export async function openSource(source: string, options: OpeningOptions): Promise<OpenedSource> {
  const { signal, storage, verify, foreign = {}, skipFailed, choice = {} } = options;
  if (isRemote(source)) {
    requireUsed(foreign, 'safetensors');
    const { openRemoteSource } = await import('../../remote/node/open-remote.js');
    return await openRemoteSource(source, { signal, verify, ...choice, skipFailed });
  }
  const path = localPath(source);
  const opening = { signal, storage, ...choice };
  if (!(await isPipelineFound(path, choice, signal)))
    return await open(path, { ...opening, ...foreign });
  requireUsed(foreign, 'safetensors');
  return await openPipeline(path, { ...opening, skipFailed });
}

/** Whether a local source is a pipeline, which no other format in its folder comes before. */
async function isPipelineFound(
  path: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<boolean> {
  if (isDdufName(path)) return true;
  if (!(await runAsync(isPipelineAt(path, choice), signal))) return false;
  return (await detectFormat(path)).format === 'safetensors';
}

/** Whether a source is a pipeline of several models. */
export function isPipeline(opened: object): opened is OpenedPipeline {
  return 'models' in opened;
}

/** The models of a source by their folders; the folder of a single model is empty. */
export function modelsOf(opened: OpenedSource): ReadonlyMap<string, AnyCheckpoint> {
  return isPipeline(opened) ? opened.models : new Map([['', opened]]);
}

/**
 * The open source, if it is one model.
 *
 * @throws FormatError for a pipeline, which names the folders of its models
 */
export function requireModel(opened: OpenedSource): AnyCheckpoint {
  if (!isPipeline(opened)) return opened;
  const { path, models } = opened;
  const message = `expected one model, found a pipeline of several models: ${[...models.keys()].join(', ')}`;
  throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
}

const OTHER_FORMATS: ReadonlyMap<string | null, string> = new Map([
  ['torch', 'a torch file'],
  ['numpy', 'a NumPy file'],
  ['gguf', 'a GGUF file'],
  ['dcp', 'a distributed checkpoint'],
  ['dduf', 'a DDUF archive'],
]);

/**
 * The FormatError `SAFETENSORS_FOREIGN_FORMAT` for a path of another format, by its first bytes; undefined for
 * safetensors.
 */
export async function foreignFormatError(source: string): Promise<FormatError | undefined> {
  const { format, foundFormat, path } = await detectFormat(source);
  const found = isDdufName(path) ? 'dduf' : (format ?? foundFormat);
  const label = OTHER_FORMATS.get(found);
  if (label === undefined) return undefined;
  const message = `expected a safetensors file or checkpoint, found ${label}`;
  return new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
}

/**
 * The file that lists the pieces of the distributed checkpoint in a folder, or the file of its first rank; undefined
 * for other folders.
 */
export async function distributedFile(folder: string): Promise<string | undefined> {
  const { format } = await detectFormat(folder);
  if (format !== 'dcp') return undefined;
  const names = readdirSync(folder);
  return join(folder, names.includes(METADATA_FILE) ? METADATA_FILE : (partNames(names)[0] ?? ''));
}

/**
 * Opens a file or an index that is not a model, to inspect it: a part of a distributed checkpoint, or a delta. Of a
 * folder of parts opens one at a time.
 *
 * @throws The errors of `open`
 */
export async function openForInspection(
  source: string,
  { signal, storage, foreign = {}, choice = {} }: OpeningOptions,
): Promise<AnyCheckpoint | OpenedParts> {
  const path = pathOf(source);
  if (path === null) {
    const { openRemoteForInspection } = await import('../../remote/node/open-remote.js');
    return await openRemoteForInspection(source, { signal, ...choice });
  }
  const { format, path: found } = await detectFormat(path);
  if (format === 'torch') {
    const { openTorchCheckpoint } = await import('../../foreign/torch/open.js');
    const { voidDtype: _, ...ofTorch } = foreign;
    const accepting = { ...ofTorch, acceptsIncomplete: true } as OpenTorchOptions;
    return openTorchCheckpoint(found, accepting);
  }
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const names = (isFolder ? partNames(readdirSync(path)) : []).filter((name) =>
    name.endsWith('.safetensors'),
  );
  if (names.length === 0) return openLocalForInspection(path, { storage, ...choice });
  const failed = new Map<string, Error>();
  return { parts: partsOf(path, names.sort(), storage, failed), failed };
}

/** The parts of {@link OpenedParts}. */
function* partsOf(
  path: string,
  names: readonly string[],
  storage: OpeningOptions['storage'],
  failed: Map<string, Error>,
): Generator<readonly [string, Checkpoint], void, void> {
  for (const name of names) {
    let part: Checkpoint;
    try {
      part = openLocalForInspection(join(path, name), { storage });
    } catch (error) {
      if (!isOfFile(error)) throw error;
      failed.set(name, error);
      continue;
    }
    try {
      yield [name, part];
    } finally {
      part.close();
    }
  }
}
