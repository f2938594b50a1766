/** `parseSafetensorsMetadata` in browsers. */

import { DEFAULT_HUB_SETTINGS } from '../../file/hub/settings.js';
import { type ParseSafetensorsMetadataParams, requireParams } from './params.js';
import { parseRemote } from './parse.js';
import type { CountedParseFromRepo, SafetensorsParseFromRepo } from './result.js';

/**
 * As in Node, but without local paths and settings from the environment.
 *
 * @example
 * ```ts
 * const result = await parseSafetensorsMetadata({ repo: 'org/name' });
 * if (result.sharded) console.log(Object.keys(result.headers).length); // → 2
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
  return await parseRemote(params, DEFAULT_HUB_SETTINGS);
}
