/** `mergeModels`. Its code loads on the first call. */

import { existsSync } from 'node:fs';
import type { Checkpoint } from '../file/checkpoint/checkpoint.js';
import type { MergeModelsOptions } from '../merge/adapters/options.js';
import type { MergedModel, MergedModelInfo } from '../merge/models/merge-models.js';
import type { MergeRecipe } from '../merge/models/recipe.js';
import type { RemoteCheckpoint } from '../remote/checkpoint.js';
import { open } from './open.js';
import type { Source } from './sources/sources.js';

/** A recipe: the path of one in JSON or YAML, or the recipe itself, in the library's form or with mergekit's keys. */
export type MergeModelsRecipe =
  | string
  | URL
  | MergeRecipe<Source>
  | {
      /** The method of a recipe with mergekit's keys. */
      readonly merge_method: string;
      readonly [key: string]: unknown;
    };

/**
 * Merges models into one: a view whose weights are computed when they are used, only the rows that a call returns. No
 * file is written and no weight is retained. Methods that depend on whole tensors (`slerp`, `ties`, `dare_linear`,
 * `dare_ties` and `model_stock`) read each tensor once to three times more before its first row.
 *
 * Values are accumulated in float64 and rounded once, to the dtype of the recipe; by default to that of the base, or of
 * the models. `docs/writing.md` has the methods, their parameters, and the keys of recipes.
 *
 * The view is local when all models are, else remote. `close()` closes what `mergeModels` has opened; checkpoints that
 * you pass stay yours to close. Its `sibling('config.json')` is that of the base, or of the first model, with the
 * dtype, the number of layers and the size of the vocabulary of the result.
 *
 * @param recipe the path of a recipe in JSON or YAML, of up to 1 MiB, or an object: `{ method, base, models }`, or
 *   mergekit's `merge_method`, `base_model`, `models`, `slices`, `parameters` and so on. A model is what `open` takes,
 *   or an open checkpoint; paths in a file are relative to it
 * @throws SafetensorsError `SAFETENSORS_INVALID_RECIPE` for unknown methods, keys and values,
 *   `SAFETENSORS_MERGE_UNMATCHED` for tensors that a model lacks, `SAFETENSORS_MERGE_MISMATCH` for other shapes,
 *   `SAFETENSORS_MERGE_UNSUPPORTED` for quantized models and integers; as `open` for the models. Weights with NaN,
 *   infinities or values too large for their dtype throw `SAFETENSORS_NON_FINITE` when they are computed
 *
 * @example
 * ```ts
 * const merged = await mergeModels({
 *   method: 'linear',
 *   models: [
 *     { source: 'my-model', weight: 0.75 },
 *     { source: 'model.safetensors', weight: 0.25 },
 *   ],
 * });
 * console.log(merged.changes[0]); // → { name: 'embed.weight', kind: 'linear' }
 * await saveCheckpoint('merged', merged, { maxShardSize: '5GB' });
 * merged.close();
 * ```
 */
export async function mergeModels(
  recipe: MergeModelsRecipe,
  options: MergeModelsOptions = {},
): Promise<(Checkpoint | RemoteCheckpoint) & MergedModelInfo> {
  const { view } = await mergeModelFiles(recipe, options);
  return view as unknown as (Checkpoint | RemoteCheckpoint) & MergedModelInfo;
}

/** As above, with the sources of the files next to the weights. */
export async function mergeModelFiles(
  recipe: MergeModelsRecipe,
  options: MergeModelsOptions,
): Promise<MergedModel> {
  const { mergeModelsWith } = await import('../merge/models/merge-models.js');
  const { readRecipe } = await import('./read-recipe.js');
  return await mergeModelsWith({ open, exists: existsSync, readRecipe }, recipe, options);
}
