/** Sizes in bytes, as people type and read them. */

const UNITS: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['B', 1],
  ['KB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
  ['KIB', 2 ** 10],
  ['MIB', 2 ** 20],
  ['GIB', 2 ** 30],
]);

/** Bytes of a text such as `1GB`, `256 MiB` or `1.5gb`; undefined when it is no such text. */
export function parseByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = UNITS.get(match?.[2]?.toUpperCase() ?? '');
  if (match === null || unit === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Bytes in decimal units with about three digits: `999 B`, `1.5 MB`, `256 MB`. */
export function formatByteSize(bytes: number): string {
  const magnitude = Math.abs(bytes);
  if (magnitude < 1e3) return `${bytes} B`;
  const [unit, scale] = magnitude < 1e6 ? ['kB', 1e3] : magnitude < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const value = bytes / scale;
  return `${value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)} ${unit}`;
}

/** Milliseconds with about three digits: `0.021 ms`, `4.1 ms`, `1.32 s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  const digits = milliseconds < 0.1 ? 3 : milliseconds < 10 ? 2 : milliseconds < 100 ? 1 : 0;
  return `${milliseconds.toFixed(digits)} ms`;
}
