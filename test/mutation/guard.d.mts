export function guard(
  pidOf: () => number | undefined,
  isLate: () => boolean,
): () => string | undefined;
