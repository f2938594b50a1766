export function guard(
  pidOf: () => number | undefined,
  isLate: () => boolean,
  limitBytes?: number,
): () => string | undefined;
