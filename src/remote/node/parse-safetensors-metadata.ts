/** `parseSafetensorsMetadata` in Node. */

import { isUrl } from '../../errors/brand-checks.js';
import { hubSettings } from '../../file/cache/environment.js';
import { openShards } from '../../file/checkpoint/open.js';
import { readJsonSibling } from '../../file/checkpoint/sibling-files.js';
import { SafetensorsFile } from '../../file/file.js';
import { URL_PATTERN } from '../../file/hub/ids.js';
import { runAsync, type Work } from '../../work/work.js';
import { type ParseSafetensorsMetadataParams, requireParams } from '../metadata/params.js';
import { parseRemote } from '../metadata/parse.js';
import {
  type CountedParseFromRepo,
  headerRecord,
  indexRecord,
  type ReadShard,
  resultYielding,
  type SafetensorsParseFromRepo,
} from '../metadata/result.js';
import { openCached } from './cached-repository.js';

/**
 * Index, headers and number of parameters of a model, with one request for each file. Has the parameters and the
 * result of the function of this name in `@huggingface/hub`; only the import changes. Objects of the result have no
 * prototype. A file that is not valid safetensors is refused, as everywhere in this package.
 *
 * The model is in a repository of the Hub (`repo`, `revision`, `path`), or it is a `source`: whatever
 * `open` takes, or a local path as `safeOpen` takes it.
 *
 * Parameters are counted as the Hub does: packed values of quantized models one by one, scalars and scales
 * not; tied tensors as often as they are stored. `data_offsets` count in bytes from the end of the header.
 *
 * @throws By rejecting: FormatError for a header or an index that is not valid; RemoteError for what a server
 *   refuses, among others `SAFETENSORS_REMOTE_NOT_FOUND` when there are no weights; for local paths the errors of
 *   `safeOpen`; TypeError and RangeError for parameters; `signal.reason` after an abort
 *
 * @example
 * ```ts
 * const { sharded, filepaths, parameterCount } = await parseSafetensorsMetadata({
 *   repo: 'org/name',
 *   computeParametersCount: true,
 * });
 * console.log(sharded, filepaths.length); // → true 3
 * console.log({ ...parameterCount }); // → { BF16: 32, F32: 4 }
 * ```
 */
export function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams & { readonly computeParametersCount: true },
): Promise<CountedParseFromRepo>;
export function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams,
): Promise<SafetensorsParseFromRepo>;
export async function parseSafetensorsMetadata(
  params: ParseSafetensorsMetadataParams,
): Promise<SafetensorsParseFromRepo> {
  requireParams(params);
  const { source, computeParametersCount = false, signal } = params;
  if (!isLocal(source)) return await parseRemote(params, { ...hubSettings(), openCached });
  return await runAsync(parseLocal(source, computeParametersCount), signal);
}

function isLocal(source: unknown): source is string | URL {
  if (typeof source === 'string') return !URL_PATTERN.test(source);
  return isUrl(source) && source.protocol === 'file:';
}

function* parseLocal(source: string | URL, isCounted: boolean): Work<SafetensorsParseFromRepo> {
  const shards = yield* openShards(source, {});
  try {
    const { index, path, shards: files } = shards.files;
    const read: ReadShard[] = [];
    for (const [shard, { name }] of files.entries()) {
      yield;
      const header = SafetensorsFile.headerOf(shards.open(shard));
      read.push({ name, header, record: headerRecord(header) });
    }
    const filepaths = index === null ? [path] : [path, ...files.map((file) => file.path)];
    const counting = isCounted ? { config: yield* readJsonSibling({ path }, 'config.json') } : null;
    const readIndex = index === null ? null : { index, record: yield* indexRecord(index) };
    return yield* resultYielding({ index: readIndex, shards: read, filepaths }, counting);
  } finally {
    shards.close({});
  }
}
