import type { Equipment } from '../drivers.js';

/** What all trials share. */
export interface TrialContext {
  readonly equipment: Equipment;
  /** The model file. */
  readonly path: string;
  /** Fresh processes per driver; the median of them counts. */
  readonly rounds: number;
  /** Folder for files of a trial's own. */
  readonly folder: string;
  /** Node that counts collections; undefined when none is recent enough for buffers above 4 GiB. */
  readonly collectionsNode: string | undefined;
  readonly signal: AbortSignal;
}

/** A measured value for a table; a dash for NaN. */
export function cell(value: number, format: (value: number) => string): string {
  return Number.isNaN(value) ? '–' : format(value);
}
