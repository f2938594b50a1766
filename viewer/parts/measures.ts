/** What is measured of tensors, and how it is shown. */

import { median, type Poster } from '../poster.js';
import type { LayerStatistics } from '../worker/layers.js';
import { formatPercent, shortNumber } from './format.js';

/** A measure. */
export interface Measure {
  readonly key: 'norm' | 'spread' | 'outliers' | 'zeros';
  readonly label: string;
  readonly note: string;
  /** Whether a value is compared with the median of its row: sizes of weights differ by role. */
  readonly isRelative: boolean;
}

export const MEASURES: readonly [Measure, ...Measure[]] = [
  {
    key: 'norm',
    label: 'RMS',
    note: 'Relative to the row’s median',
    isRelative: true,
  },
  {
    key: 'spread',
    label: 'Std',
    note: 'Relative to the row’s median',
    isRelative: true,
  },
  {
    key: 'outliers',
    label: 'Peak ÷ RMS',
    note: 'Greatest absolute value ÷ RMS',
    isRelative: false,
  },
  { key: 'zeros', label: 'Zeros', note: 'Share of zeros', isRelative: false },
];

/** The measure that an address names; the first by default. */
export function measureOf(by: string | undefined): Measure {
  return MEASURES.find(({ key }) => key === by) ?? MEASURES[0];
}

/** A value of a measure in full. */
export function formatMeasure({ key }: Measure, value: number): string {
  return key === 'zeros' ? formatPercent(value, 1) : shortNumber(value);
}

/** Three digits, as short as they can be: `.142`, `4.50`, `1.2e6`. */
export function cellText(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return shortNumber(value);
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e4) {
    return value.toExponential(1).replace('e+', 'e').replaceAll('-', '−');
  }
  const digits = size >= 1000 ? String(Math.round(value)) : value.toPrecision(3);
  return digits.replace(/^(-?)0\./, '$1.').replace('-', '−');
}

/** Peaks above so many root mean squares are outliers. */
const OUTLIER = 20;

/** Tensors with something wrong, by their positions in the list. */
export interface Health {
  readonly broken: readonly number[];
  readonly constant: readonly number[];
  readonly outliers: readonly number[];
  readonly zeroRows: readonly number[];
  /** Experts whose root mean square is far from the median of those of their layer. */
  readonly unusual: readonly number[];
}

/** Factor from the median of a layer from which on an expert is unusual. */
const UNUSUAL = 1.5;

function unusualExperts({ rows }: Poster, norms: Float64Array): number[] {
  const cells = rows.filter(({ part, isFolded }) => part === 'experts' && isFolded);
  return cells.flatMap(({ cells: all }) =>
    all.flatMap((tensors) => {
      const middle = median(tensors.map((at) => norms[at] as number));
      return tensors.filter(
        (at) => Math.abs(Math.log((norms[at] as number) / middle)) > Math.log(UNUSUAL),
      );
    }),
  );
}

/** Sorts tensors by what is wrong with them. */
export function healthOf(statistics: LayerStatistics, poster: Poster): Health {
  const { broken, constant, outliers, zeroRows } = statistics;
  const positions = [...broken.keys()];
  return {
    broken: positions.filter((at) => (broken[at] as number) > 0),
    constant: positions.filter((at) => !Number.isNaN(constant[at])),
    outliers: positions.filter((at) => (outliers[at] as number) > OUTLIER),
    zeroRows: positions.filter((at) => (zeroRows[at] as number) > 0),
    unusual: unusualExperts(poster, statistics.norm),
  };
}
