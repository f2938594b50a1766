/** Numbers as people read them. */

import { formatInteger } from 'safetensors-mmap/inspect';

export { formatBytes, formatInteger, formatShortCount } from 'safetensors-mmap/inspect';

/** `1 tensor`, `2 tensors`. */
export function plural(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** A number with some digits, short: `0.0213`, `1.5e-7`. */
export function shortNumber(value: number | null): string {
  if (value === null) return '–';
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(3).replace('-', '−');
  return String(Number(value.toPrecision(5))).replace('-', '−');
}

/** Formats numbers of a column with the same decimals: about three digits of the greatest. */
export function fixedFormat(values: readonly number[]): (value: number) => string {
  const most = values.reduce(
    (top, value) => Math.max(top, Number.isFinite(value) ? Math.abs(value) : 0),
    0,
  );
  const decimals = 2 - Math.floor(Math.log10(most || 1));
  if (decimals > 8 || decimals < -4) return shortNumber;
  return (value) =>
    Number.isFinite(value)
      ? value.toFixed(Math.max(0, decimals)).replace('-', '−')
      : shortNumber(value);
}

/** `12.50 %`, for columns: all have two decimals. */
export function fixedPercent(share: number): string {
  return share > 0 && share < 5e-5 ? '< 0.01 %' : `${(100 * share).toFixed(2)} %`;
}

/** `12.5 %`; small parts are not shown as none. */
export function formatPercent(part: number, whole: number): string {
  if (whole === 0) return '0 %';
  const percent = (100 * part) / whole;
  if (part > 0 && percent < 0.01) return '< 0.01 %';
  return `${Number(percent.toPrecision(3))} %`;
}
