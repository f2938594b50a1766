/** Parameters of merge methods: numbers, gradients over the layers, and values by names of tensors. */

import { invalidRecipe, type RecipePlace } from './errors.js';

/** A value for all layers, or values that are interpolated from the first layer to the last. */
export type Gradient = number | boolean | readonly (number | boolean)[];

/** A parameter: one value, or values for tensors whose names contain `filter`, of which the first counts. */
export type ParameterValue =
  | Gradient
  | readonly {
      /** A part of the names of tensors; all without it. */
      readonly filter?: string | undefined;
      /** The value for these tensors. */
      readonly value: Gradient;
    }[];

/** Values for tensors whose names contain a text. */
interface FilteredValues {
  /** Empty for all tensors. */
  readonly filter: string;
  /** One, or a gradient. */
  readonly values: readonly number[];
}

/** Parsed parameters, by name. */
export type Parameters = ReadonlyMap<string, readonly FilteredValues[]>;

/** Parses a parameter. */
export function parseParameter(value: unknown, place: RecipePlace): readonly FilteredValues[] {
  const isFiltered = Array.isArray(value) && value.some((one) => typeof Object(one) === typeof one);
  const conditions: unknown[] = isFiltered ? value : [{ value }];
  return conditions.map((condition) => {
    const { filter, value, ...others } = Object(condition) as Record<string, unknown>;
    const values = Array.isArray(value) ? value : [value];
    const isValid = values.length > 0 && values.every(isNumber);
    const isText = filter == null || typeof filter === 'string';
    if (!isValid || !isText || Object.keys(others).length > 0) {
      throw invalidRecipe(
        'a number, a list of numbers, or a list of { filter, value }',
        place,
        value,
      );
    }
    return { filter: filter == null || filter === '*' ? '' : filter, values: values.map(Number) };
  });
}

function isNumber(value: unknown): boolean {
  return typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value));
}

/**
 * Returns the value of a parameter for a tensor: of the first parameters that have one.
 *
 * @param t where in the layers the tensor is: 0 for the first, 1 for the last
 */
export function parameterAt(
  parameters: readonly Parameters[],
  name: string,
  tensor: string,
  t: number,
): number | undefined {
  for (const one of parameters) {
    const found = one.get(name)?.find(({ filter }) => tensor.includes(filter));
    if (found !== undefined) return interpolated(found.values, t);
  }
  return undefined;
}

function interpolated(values: readonly number[], t: number): number {
  const at = t * (values.length - 1);
  const first = Math.floor(at);
  const part = at - first;
  const [one, next] = [values[first] as number, values[Math.min(values.length - 1, first + 1)]];
  return (1 - part) * one + part * (next as number);
}
