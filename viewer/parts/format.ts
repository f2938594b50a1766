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

/** `12.5 %`; small parts are not shown as none. */
export function formatPercent(part: number, whole: number): string {
  if (whole === 0) return '0 %';
  const percent = (100 * part) / whole;
  if (part > 0 && percent < 0.01) return '< 0.01 %';
  return `${Number(percent.toPrecision(3))} %`;
}
