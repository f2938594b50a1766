/** `describeAdapter`. Its code loads on the first call. */

import type { TensorSource } from '../../file/source/tensor-source.js';
import type { MergeSource } from '../base.js';
import type { AdapterDescription, DescribeAdapterOptions } from './describe.js';

/**
 * Describes an adapter; null for a checkpoint that is none. Reads names and shapes, `adapter_config.json` next to the
 * file, and the values of `alpha`.
 *
 * @throws SafetensorsError `SAFETENSORS_MERGE_UNSUPPORTED` for kinds that `mergeAdapters` cannot merge,
 *   `SAFETENSORS_INVALID_ADAPTER` for a malformed configuration
 *
 * @example
 * ```ts
 * const adapter = await describeAdapter(safeOpen('my-adapter'));
 * console.log(adapter?.modules[0]?.scale); // → 2
 * ```
 */
export async function describeAdapter(
  checkpoint: MergeSource | TensorSource,
  options: DescribeAdapterOptions = {},
): Promise<AdapterDescription | null> {
  const { describe } = await import('./describe.js');
  return await describe(checkpoint as never, options);
}
