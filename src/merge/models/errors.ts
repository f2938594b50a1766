/** Errors of recipes. */

import type { Advice } from '../../errors/advice.js';
import { describeValue } from '../../errors/arguments.js';
import { SafetensorsError } from '../../errors/errors.js';

/** A place in a recipe. */
export interface RecipePlace {
  /** Where it is: `models[0].weight`. Empty for the recipe itself. */
  readonly key: string;
  /** The file of the recipe. */
  readonly path: string | undefined;
}

/** The error of a recipe with another value than the expected one. `hint` ends the message. */
export function invalidRecipe(
  expected: string,
  { key, path }: RecipePlace,
  found: unknown,
  hint = '',
): SafetensorsError {
  const subject = key === '' ? 'the recipe' : key;
  return recipeError(`${subject} must be ${expected}, found ${describeValue(found)}${hint}`, path);
}

/** The error of a recipe. */
export function recipeError(
  message: string,
  path: string | undefined,
  advice: readonly Advice[] = [],
): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_INVALID_RECIPE', message, { path, advice });
}
