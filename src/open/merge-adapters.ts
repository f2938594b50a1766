/** `mergeAdapters`. Its code loads on the first call. */

import type { TensorSource } from '../file/source/tensor-source.js';
import type { MergedInfo } from '../merge/adapters/merge-adapters.js';
import type { AdapterInput, MergeAdaptersOptions } from '../merge/adapters/options.js';
import type { MergeSource } from '../merge/base.js';
import { open } from './open.js';
import type { Source } from './sources/sources.js';

/** An adapter: anything that `open` takes, an open checkpoint, or one of these with options. */
export type AdapterSource = Source | TensorSource | AdapterInput<Source>;

/**
 * Merges adapters into a checkpoint: a view whose changed weights are computed when they are used, only the rows that a
 * call returns. No file is written and no weight is retained, so a base of any size takes little memory.
 * `saveCheckpoint` writes the view.
 *
 * Takes adapters of PEFT (a folder with `adapter_config.json`: LoRA with rsLoRA and DoRA, LoHa, LoKr, IA3), kohya,
 * LyCORIS and Diffusers. Several are applied one after the other. Names are matched to those of the base. Values are
 * accumulated in float64 and rounded once to the dtype of the base.
 *
 * The view is a checkpoint of the kind that was given. It reads through that one, which stays the caller's to close.
 *
 * @param base an open checkpoint: local, remote or a view
 * @param adapters what `open` takes, open checkpoints, or `{ source, scale, scales, component, rename, config }`
 * @throws SafetensorsError `SAFETENSORS_MERGE_UNMATCHED` for a key that has no place in the base,
 *   `SAFETENSORS_MERGE_MISMATCH` for factors of another shape, `SAFETENSORS_MERGE_UNSUPPORTED` for a quantized base or
 *   an unsupported adapter, `SAFETENSORS_INVALID_ADAPTER`, `SAFETENSORS_ALREADY_MERGED`; as `open` for the adapters.
 *   Weights with NaN, infinities or values too large for their dtype throw `SAFETENSORS_NON_FINITE` when they are
 *   computed
 *
 * @example
 * ```ts
 * const base = safeOpen('my-model');
 * const tuned = await mergeAdapters(base, [{ source: 'my-adapter', scale: 0.5 }]);
 * console.log(tuned.changes[0]); // → { name: 'embed.weight', kind: 'lora', rank: 1, scale: 1 }
 * console.log(tuned.getSlice('embed.weight', '0').toFloat32()); // → Float32Array(4) [ 0.5, 0.75, 1, 1.25 ]
 * await saveCheckpoint('tuned', tuned, { maxShardSize: '5GB' });
 * ```
 */
export async function mergeAdapters<Opened extends MergeSource>(
  base: Opened,
  adapters: Iterable<AdapterSource>,
  options: MergeAdaptersOptions = {},
): Promise<Opened & MergedInfo> {
  const { mergeAdaptersWith } = await import('../merge/adapters/merge-adapters.js');
  return await mergeAdaptersWith(open, base, adapters, options);
}
