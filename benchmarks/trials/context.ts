import type { Driver } from '../drivers.js';
import type { Equipment } from '../equipment.js';
import type { Section } from '../report.js';

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

/** One figure, or a few that belong together. */
export interface Trial {
  /** As `--only` knows it. */
  readonly name: string;
  /** Readers of which it needs copies of the model. */
  readonly drivers: readonly Driver[];
  /** How often it has the model's bytes on the disk besides, at most. */
  readonly written?: number;
  run(context: TrialContext): Promise<Section>;
}

/** A measured value for a table; a dash for NaN. */
export function cell(value: number, format: (value: number) => string): string {
  return Number.isNaN(value) ? '–' : format(value);
}

/** A ratio for a table. */
export function times(ratio: number): string {
  return `${ratio.toFixed(2)} ×`;
}
