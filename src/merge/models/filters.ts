/** Filters of parameters that match nothing. */

import type { PlannedTensor } from './plan.js';
import type { Recipe } from './recipe.js';

/** Returns a warning for every filter that is in no tensor's name: its values are not used. */
export function unusedFilters(
  { parameters, slices }: Recipe,
  tensors: readonly PlannedTensor[],
): readonly string[] {
  const names = new Set(
    tensors.flatMap(({ name, inputs }) => [name, ...inputs.map(({ entry }) => entry.name)]),
  );
  const ofSlices = slices.flatMap(({ parameters: own, sources }) => [
    own,
    ...sources.map((source) => source.parameters),
  ]);
  const warnings = new Set<string>();
  for (const [parameter, values] of [parameters, ...ofSlices].flatMap((one) => [...one])) {
    for (const { filter } of values) {
      if ([...names].some((name) => name.includes(filter))) continue;
      warnings.add(`no tensor matches the filter ${JSON.stringify(filter)} of ${parameter}`);
    }
  }
  return [...warnings];
}
