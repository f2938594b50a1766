/** The same functions as in `runtime.ts`, in browsers: what needs files throws. `#runtime` imports this file there. */

import { isUint8Array } from './errors/brand-checks.js';
import { SafetensorsError } from './errors/errors.js';
import type { VerificationReport } from './file/shards/verification-report.js';
import type { MergedInfo } from './merge/adapters/merge-adapters.js';
import type { MergeAdaptersOptions, MergeModelsOptions } from './merge/adapters/options.js';
import type { MergeSource } from './merge/base.js';
import type { OpenSourceOptions } from './open/sources/options.js';
import { isRequested, openRequested, requireOpenOptions } from './open/sources/requested.js';
import type { Source } from './open/sources/sources.js';
import { isHandle, type VerifyOptions, verifyHandle } from './open/sources/verify-handle.js';
import { openRemote, openRemotePipeline } from './remote/browser.js';
import { parseSafetensorsMetadata as parseMetadata } from './remote/metadata/browser.js';
import type * as node from './runtime.js';
import {
  serialize as serializeInMemory,
  serializeStream as streamFromMemory,
} from './write/input/serialize-in-memory.js';

/** The error of a function that needs Node. */
function needsNode(name: string): SafetensorsError {
  const message =
    `${name} needs Node: this is the build for browsers, which the "browser" condition of package.json selects ` +
    '(in Jest, set customExportConditions to ["node"])';
  return new SafetensorsError('SAFETENSORS_NEEDS_NODE', message);
}

/** Throws the error of a function that needs Node. */
function unavailable(name: string): never {
  throw needsNode(name);
}

/** Opens addresses, Blobs and readers. */
async function openHere(source: Source, options: OpenSourceOptions = {}): Promise<never> {
  requireOpenOptions(options);
  if (isUint8Array(source)) throw needsNode('open of a Uint8Array (new Blob([bytes]) works here)');
  if (!isRequested(source)) throw needsNode('open of a local file');
  return (await openRequested(source, options, openRemote)) as never;
}

/** Opens addresses. */
async function openPipelineHere(source: string | URL, options?: object): Promise<never> {
  if (!isRequested(source)) throw needsNode('openPipeline of a local folder');
  return (await openRemotePipeline(source, options)) as never;
}

/** Merges adapters that are opened by requests, or open. */
async function mergeAdaptersHere<Opened extends MergeSource>(
  base: Opened,
  adapters: Iterable<unknown>,
  options?: MergeAdaptersOptions,
): Promise<Opened & MergedInfo> {
  const { mergeAdaptersWith } = await import('./merge/adapters/merge-adapters.js');
  return await mergeAdaptersWith(openHere, base, adapters, options);
}

/** Merges models that are opened by requests, or open. */
async function mergeModelsHere(
  recipe: Parameters<typeof node.mergeModels>[0],
  options?: MergeModelsOptions,
): ReturnType<typeof node.mergeModels> {
  const { mergeModelsWith } = await import('./merge/models/merge-models.js');
  const readRecipe = async (): Promise<never> => unavailable('mergeModels of a file');
  const runtime = { open: openHere, exists: () => false, readRecipe };
  const { view } = await mergeModelsWith(runtime, recipe, options);
  return view as unknown as Awaited<ReturnType<typeof node.mergeModels>>;
}

/** Verifies open handles. */
async function verifyHere(
  source: Parameters<typeof node.verify>[0],
  options?: VerifyOptions,
): Promise<VerificationReport> {
  if (!isHandle(source)) throw needsNode('verify of a path');
  return await verifyHandle(source, options);
}

export const convert: typeof node.convert = async () => unavailable('convert');
export const createWriter: typeof node.createWriter = async () => unavailable('createWriter');
export const download: typeof node.download = async () => unavailable('download');
export const editMetadata: typeof node.editMetadata = async () => unavailable('editMetadata');
export const loadFile: typeof node.loadFile = () => unavailable('loadFile');
export const mappingStatus: typeof node.mappingStatus = () => unavailable('mappingStatus');
export const mergeAdapters: typeof node.mergeAdapters = mergeAdaptersHere;
export const mergeModels: typeof node.mergeModels = mergeModelsHere;
export const open: typeof node.open = openHere;
export const openPipeline: typeof node.openPipeline = openPipelineHere;
export const parse: typeof node.parse = () => unavailable('parse');
export const parseSafetensorsMetadata: typeof node.parseSafetensorsMetadata = parseMetadata;
export const safeOpen: typeof node.safeOpen = () => unavailable('safeOpen');
export const safeOpenAsync: typeof node.safeOpenAsync = async () => unavailable('safeOpenAsync');
export const saveCheckpoint: typeof node.saveCheckpoint = async () => unavailable('saveCheckpoint');
export const saveFile: typeof node.saveFile = async () => unavailable('saveFile');
export const scanPickle: typeof node.scanPickle = async () => unavailable('scanPickle');
export const serialize: typeof node.serialize = serializeInMemory;
export const serializeStream: typeof node.serializeStream = streamFromMemory;
export const verify: typeof node.verify = verifyHere;
export const watch: typeof node.watch = () => unavailable('watch');
