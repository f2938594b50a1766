/** The record of a merge in the metadata of its result. */

import type { Tensor } from '../../tensor/tensor.js';
import { mergedAdapters, sha256 } from '../adapters/record.js';
import { sliceOf } from '../base.js';
import type { Model } from './model.js';
import type { Recipe } from './recipe.js';

/** The key. Its value is a JSON object. */
export const MERGE_KEY = 'safetensors-mmap.merge';

/** Tensors whose first bytes are in a fingerprint, and how many bytes of each. */
const SAMPLED_TENSORS = 16;
const SAMPLED_BYTES = 4096;

/**
 * Returns a digest of a model that takes little time whatever its size: of the names, dtypes and shapes of all tensors,
 * and of the first 4 KiB of 16 tensors that are spread over the model.
 */
async function fingerprint(
  { handle, entries }: Model,
  signal: AbortSignal | undefined,
): Promise<string> {
  const sorted = [...entries.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const lines = sorted.map(
    ({ name, dtype, shape }) => `${JSON.stringify(name)} ${dtype} [${shape}]`,
  );
  const step = Math.max(1, sorted.length / SAMPLED_TENSORS);
  const sampled = sorted.filter((_, i) => Math.floor(i / step) > Math.floor((i - 1) / step));
  const samples = await Promise.all(
    sampled.map(async ({ name, shape, byteLength }): Promise<Tensor> => {
      const [rows] = shape;
      if (rows === undefined || byteLength === 0) return await handle.getTensor(name, { signal });
      const count = Math.ceil((SAMPLED_BYTES * rows) / byteLength);
      return await sliceOf(handle, name, [[0, Math.min(rows, count)]], { signal });
    }),
  );
  for (const sample of samples) {
    const bytes = sample.copy().bytes.subarray(0, SAMPLED_BYTES);
    lines.push(await sha256(bytes));
  }
  return await sha256(new TextEncoder().encode(lines.join('\n')));
}

/** Returns the record: the recipe, with names and fingerprints of models in the place of their paths. */
export async function recordOf(
  recipe: Recipe,
  models: readonly Model[],
  signal: AbortSignal | undefined,
): Promise<string> {
  const listed = await Promise.all(
    models.map(async (model) => {
      const adapters = mergedAdapters(model.handle.metadata);
      return {
        name: model.name,
        ...(adapters.length === 0 ? {} : { adapters }),
        fingerprint: await fingerprint(model, signal),
      };
    }),
  );
  const { methodName: method, base, dtype, tokenizer, seed } = recipe;
  const slices = recipe.slices.map(({ sources, length, parameters }) => ({
    sources: sources.map(({ model, first, parameters: own }) => ({
      model,
      ...(length === null ? {} : { layers: [first, first + length] }),
      ...Object.fromEntries(own),
    })),
    ...Object.fromEntries(parameters),
  }));
  const parameters = Object.fromEntries(recipe.parameters);
  return JSON.stringify({
    method,
    base,
    models: listed,
    slices,
    ...parameters,
    dtype,
    tokenizer,
    seed,
  });
}
