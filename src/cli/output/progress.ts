/** The progress of long work: a line on the terminal that overwrites itself. */

import { formatBytes } from '../../inspect/format.js';
import { bar } from './bar.js';
import type { Output } from './output.js';
import { cutEnd } from './width.js';

/** Shorter work shows no progress. */
const SILENT_MS = 1000;
/** Milliseconds between updates. */
const INTERVAL_MS = 100;

const PROGRESS_BAR_WIDTH = 20;

const CLEAR_LINE = '\r\x1b[K';

/** Shows progress, until `end`. */
export interface Progress {
  readonly onProgress: (progress: { readonly bytes: number; readonly totalBytes: number }) => void;
  /** Removes the line. */
  end(): void;
}

const NO_PROGRESS: Progress = { onProgress() {}, end() {} };

function timeText(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/**
 * Progress on a terminal; no text on any other output.
 *
 * @param now clock in milliseconds
 */
export function progressOn(
  output: Output,
  label: string,
  now: () => number = () => performance.now(),
): Progress {
  if (output.columns === null) return NO_PROGRESS;
  const { columns } = output;
  const begun = now();
  let isShown = false;
  let shownAt = Number.NEGATIVE_INFINITY;
  return {
    onProgress({ bytes, totalBytes }) {
      const milliseconds = now() - begun;
      if (milliseconds < SILENT_MS || totalBytes === 0) return;
      if (milliseconds - shownAt < INTERVAL_MS) return;
      isShown = true;
      shownAt = milliseconds;
      const share = bytes / totalBytes;
      const rate = (bytes / milliseconds) * 1000;
      const left = bytes === 0 ? '' : `, ${timeText((totalBytes - bytes) / rate)} left`;
      const counts = `${formatBytes(bytes)} of ${formatBytes(totalBytes)}, ${formatBytes(rate)}/s${left}`;
      const line = `${label}  ${bar(share, PROGRESS_BAR_WIDTH).padEnd(PROGRESS_BAR_WIDTH)}  ${counts}`;
      output.write(CLEAR_LINE + cutEnd(line, columns - 1));
    },
    end() {
      if (isShown) output.write(CLEAR_LINE);
      isShown = false;
    },
  };
}
