/** What to do with a name that several sources have. */

/** Throw, or take the tensor of the first or the last source. */
export const DUPLICATE_RULES = ['error', 'first', 'last'] as const;

/** One of {@link DUPLICATE_RULES}. */
export type DuplicateRule = (typeof DUPLICATE_RULES)[number];
