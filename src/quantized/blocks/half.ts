/** Float16 numbers as float32. */

let table: Float32Array | undefined;

/** Returns the values of all bit patterns; computed on the first call. */
export function halfTable(): Float32Array {
  table ??= Float32Array.from({ length: 2 ** 16 }, (_, pattern) => halfValue(pattern));
  return table;
}

function halfValue(pattern: number): number {
  const sign = pattern < 2 ** 15 ? 1 : -1;
  const exponent = (pattern >> 10) & 31;
  const fraction = pattern & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
