/** Tensors of PEFT adapters that replace tensors of the base: trained biases, and modules that are saved whole. */

import { PEFT_PREFIX } from './detect.js';
import type { PartTensor } from './keys.js';
import type { Place } from './names.js';

/** A tensor, and the one that it replaces. */
export interface Replacement {
  readonly tensor: PartTensor;
  /** Undefined when the base has none. */
  readonly place: Place | undefined;
}

/**
 * Returns the replacements. Copies of the original modules are left out; of two tensors with the same place, the one
 * with the plain name counts.
 */
export function replacements(
  tensors: readonly PartTensor[],
  find: (name: string) => Place | undefined,
): Replacement[] {
  const found = new Map<string, Replacement>();
  const plainFirst = [...tensors].sort(
    (one, other) => Number(isWrapped(one)) - Number(isWrapped(other)),
  );
  for (const tensor of plainFirst) {
    const { key } = tensor;
    if (/\.original_module\./.test(key)) continue;
    const names = plainNames(key.startsWith(PEFT_PREFIX) ? key.slice(PEFT_PREFIX.length) : key);
    const place = names.map(find).find((one) => one !== undefined);
    const id = place?.name ?? (names[0] as string);
    if (!found.has(id)) found.set(id, { tensor, place });
  }
  return [...found.values()];
}

function isWrapped({ key }: PartTensor): boolean {
  return /\.(?:modules_to_save|base_layer)\./.test(key);
}

/** The names that a key may mean in the base: PEFT's wrappers may have the name of the adapter. */
function plainNames(key: string): string[] {
  const name = key.replaceAll('.base_layer.', '.');
  if (!name.includes('.modules_to_save.')) return [name];
  return [name.replace('.modules_to_save.', '.'), name.replace(/\.modules_to_save\.[^.]+\./, '.')];
}
