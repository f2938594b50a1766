/** What has to be known of all rows of a weight before the first merged one. */

import { cut } from '../work/byte-ranges.js';
import { rowsAtOnce } from './rows.js';

/** Finds out something about all rows, in one pass or several. */
export interface Survey<Rows> {
  /** Whether all passes are over. */
  readonly isDone: boolean;
  /** Starts a pass from the beginning. */
  begin(): void;
  /** Counts rows. `first` is the first element among those of the weight. */
  count(rows: Rows, first: number): void;
  /** Called after the last row of a pass. */
  end(): void;
}

/** Rows to read for a survey. */
export interface RowRange {
  readonly first: number;
  readonly count: number;
}

/**
 * Yields the rows to count, once for every pass that is left. Ends early when another caller, which did not wait
 * between rows, has counted all.
 */
export function* surveyedRows(
  survey: Survey<never>,
  rows: number,
  columns: number,
): Generator<RowRange, void, void> {
  while (!survey.isDone) {
    survey.begin();
    for (const { begin, end } of cut(0, rows, rowsAtOnce(columns))) {
      yield { first: begin, count: end - begin };
      if (survey.isDone) return;
    }
    survey.end();
  }
}
