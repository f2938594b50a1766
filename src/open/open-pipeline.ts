/** `openPipeline`: the models of a Diffusers pipeline, wherever it is. */

import {
  type OptionNames,
  requireBoolean,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import type { Checkpoint } from '../file/checkpoint/checkpoint.js';
import type { OpenPipelineOptions } from '../file/checkpoint/open-pipeline.js';
import { isDdufName } from '../file/shards/file-names.js';
import type { Pipeline } from '../file/source/pipeline.js';
import { statPath } from '../platform/io/file-calls.js';
import { requirePath } from '../platform/io/paths.js';
import type { RemotePipeline, RemotePipelineOptions } from '../remote/pipeline.js';
import { runAsync } from '../work/work.js';
import { OPEN_SOURCE_OPTIONS, type OpenSourceOptions, usedOptions } from './sources/options.js';
import { isRequested, requireLocal } from './sources/requested.js';
import type { Address } from './sources/sources.js';

/** Options of `openPipeline`. One that the source cannot use is an error. */
export interface OpenPipelineSourceOptions
  extends Omit<OpenPipelineOptions, 'verify'>,
    Omit<RemotePipelineOptions, 'verify'>,
    Pick<OpenSourceOptions, 'verify' | 'remote'> {}

// A pipeline is safetensors.
const {
  formats: _formats,
  root: _root,
  unknownGlobals: _unknownGlobals,
  limits: _limits,
  voidDtype: _voidDtype,
  ...OF_SAFETENSORS
} = OPEN_SOURCE_OPTIONS;

const OPTIONS: OptionNames<OpenPipelineSourceOptions> = { ...OF_SAFETENSORS, skipFailed: true };

/** The pipeline at a source, as far as its type shows it. */
export type OpenedPipeline<Given> = Given extends Address
  ? RemotePipeline
  : Given extends string
    ? [Given & Address] extends [never]
      ? Pipeline<Checkpoint>
      : Pipeline<Checkpoint> | RemotePipeline
    : Pipeline<Checkpoint> | RemotePipeline;

/**
 * Opens every model of a Diffusers pipeline: a folder with `model_index.json`, a repository with one in the Hub cache, a
 * DDUF archive (`.dduf`), or a repository on the Hub (`hf://org/name`). Each model is opened as `open` opens its folder,
 * and those of an archive are mapped in place. A folder without weights, as of a scheduler or a tokenizer, is passed
 * over. With `variant` takes the files of that variant where a folder has them, as Diffusers does.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without `model_index.json`, and for a variant
 *   that no folder has; FormatError `SAFETENSORS_INVALID_PIPELINE` for a bad `model_index.json`,
 *   `SAFETENSORS_INVALID_ARCHIVE`, `SAFETENSORS_INCOMPLETE_FILE` for an archive; as `open`
 * @throws RangeError `ERR_OUT_OF_RANGE` for an option that the source cannot use
 *
 * @example
 * ```ts
 * const pipeline = await openPipeline('my-pipeline', { variant: 'fp16' });
 * for (const [folder, model] of pipeline.models) console.log(folder, model.keys());
 * // → text_encoder [ 'embed.weight', 'norm.weight' ]
 * // → unet [ 'embed.weight', 'norm.weight' ]
 * pipeline.close();
 *
 * const archive = await openPipeline('pipeline.dduf');
 * console.log(archive.models.get('unet')?.getTensor('norm.weight').data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * ```
 */
export async function openPipeline(
  source: string | URL,
  options: OpenPipelineSourceOptions & { readonly remote: false },
): Promise<Pipeline<Checkpoint>>;
/** As above, with the pipeline that the type of the source shows. */
export async function openPipeline<const Given extends string | URL>(
  source: Given,
  options?: OpenPipelineSourceOptions,
): Promise<OpenedPipeline<Given>>;
export async function openPipeline<Given extends string | URL>(
  source: Given,
  options: OpenPipelineSourceOptions = {},
): Promise<OpenedPipeline<Given>> {
  return (await openAt(source, options)) as OpenedPipeline<Given>;
}

async function openAt(
  source: string | URL,
  given: OpenPipelineSourceOptions,
): Promise<Pipeline<Checkpoint> | RemotePipeline> {
  requireOptions(given, OPTIONS);
  const { remote = true, signal, skipFailed, ...choice } = given;
  requireBoolean('remote', remote);
  requireSignal(signal);
  signal?.throwIfAborted();
  if (isRequested(source)) {
    requireLocal(source, remote);
    const requesting = usedOptions(choice, 'remote');
    const { openRemotePipeline } = await import('../remote/node/open-remote.js');
    return await openRemotePipeline(source, { ...requesting, skipFailed, signal });
  }
  if (!remote) await runAsync(statPath(requirePath('source', source)), signal);
  if (isDdufName(String(source))) {
    const reading = usedOptions(choice, 'archive');
    const { openDduf } = await import('../foreign/dduf/open.js');
    return openDduf(source, { ...reading, skipFailed });
  }
  const opening = usedOptions(choice, 'safetensors');
  const { openPipeline: openFolder } = await import('../file/checkpoint/open-pipeline.js');
  return openFolder(source, { ...opening, skipFailed });
}
