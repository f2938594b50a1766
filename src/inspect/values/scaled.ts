/**
 * Sums of squares of any doubles. Squares overflow above 2^512 and underflow below 2^-537, so extreme values are
 * multiplied by a power of two first. Its exponent is a multiple of 700: the level of the values. Numbers of level 0,
 * as nearly all are, stay as they are.
 */

const STEP = 2 ** 700;

/** The lowest level, of the values nearest to zero. */
export const LOWEST_LEVEL = -1;

/** The greatest absolute value of level 0, and the least: the squares of both are far from the limits of doubles. */
const [MOST, LEAST] = [2 ** 400, 2 ** -300];

/** The level of values by the greatest absolute one. */
export function levelOf(greatest: number): number {
  if (greatest > MOST) return 1;
  return greatest < LEAST ? LOWEST_LEVEL : 0;
}

/** Whether the squares of some values add up to a sum that is as exact as any. */
export function isOrdinarySum(squares: number): boolean {
  return squares >= LEAST ** 2 && squares <= MOST ** 2;
}

/** The number by which values of a level are multiplied. */
export function factorOf(level: number): number {
  return raised(1, -level);
}

/** A number times 2^700 per level; divided for negative ones. */
export function raised(value: number, levels: number): number {
  let result = value;
  for (let left = levels; left > 0; left--) result *= STEP;
  for (let left = levels; left < 0; left++) result /= STEP;
  return result;
}
