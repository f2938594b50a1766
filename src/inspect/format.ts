/** Numbers as people read them: lengths in bytes, counts. */

/** Decimal units, as in `maxShardSize: '5GB'`. */
const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
const COUNT_UNITS = ['', 'k', 'M', 'B', 'T'];

/** Three significant digits in the largest unit that fits at least once. */
function scaled(value: number, units: readonly string[]): string {
  let unit = 0;
  let left = value;
  // Rounding would show 999.9 as 1000.
  while (left >= 999.5 && unit < units.length - 1) {
    left /= 1000;
    unit++;
  }
  const digits = unit === 0 ? 0 : left >= 99.95 ? 0 : left >= 9.995 ? 1 : 2;
  return `${left.toFixed(digits)} ${units[unit]}`.trimEnd();
}

/**
 * Writes a length in bytes with three digits, in decimal units, as `inspect` prints it.
 *
 * @example
 * ```ts
 * console.log(formatBytes(1_960_000_000)); // → 1.96 GB
 * ```
 */
export function formatBytes(byteLength: number): string {
  return scaled(byteLength, BYTE_UNITS);
}

/**
 * Writes a count with three digits: thousands are k, millions M, billions B, more T.
 *
 * @example
 * ```ts
 * console.log(formatShortCount(1_235_814_400)); // → 1.24 B
 * ```
 */
export function formatShortCount(count: number): string {
  return scaled(count, COUNT_UNITS);
}

/**
 * Writes a count exactly, and from a thousand on in short, too.
 *
 * @example
 * ```ts
 * console.log(formatCount(1_235_814_400)); // → 1,235,814,400 (1.24 B)
 * ```
 */
export function formatCount(count: number): string {
  const exact = formatInteger(count);
  return count < 1000 ? exact : `${exact} (${formatShortCount(count)})`;
}

/**
 * Writes a count with its digits in groups of three.
 *
 * @example
 * ```ts
 * console.log(formatInteger(1_235_814_400)); // → 1,235,814,400
 * ```
 */
export function formatInteger(count: number): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1 tensor`, `2 tensors`. */
export function plural(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** Files of ranks in safetensors do not record how many ranks there were: the last ones may be missing. */
export function unknownCompleteness(ranks: number): string {
  return `completeness unknown (ranks 1 to ${ranks} found)`;
}
