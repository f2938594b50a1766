/** The trials as data, in the order in which they are run and shown. */
import type { Equipment } from './equipment.js';
import type { Section } from './report.js';
import { buffers } from './trials/buffers.js';
import { calls } from './trials/calls.js';
import { checkpoint } from './trials/checkpoint.js';
import { commands } from './trials/commands.js';
import { convert } from './trials/convert.js';
import { formats } from './trials/formats.js';
import { headers } from './trials/headers.js';
import { manyBuffers } from './trials/many-buffers.js';
import { memory } from './trials/memory.js';
import { pickle } from './trials/pickle.js';
import { processStart } from './trials/process-start.js';
import { everyByte, everyByteCold, oneTensor } from './trials/reading.js';
import { remote } from './trials/remote.js';
import { reshardSmall } from './trials/reshard.js';
import { rows } from './trials/rows.js';
import { save } from './trials/save.js';

/** What all trials share. */
export interface TrialContext {
  readonly equipment: Equipment;
  /** The model file. */
  readonly path: string;
  /** Fresh processes per driver; the median of them counts. */
  readonly rounds: number;
  /** Folder for a trial's own files. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** Measures one figure, or a few that belong together; what does not fit into one table makes several sections. */
export type Trial = (context: TrialContext) => Promise<Section | readonly Section[]>;

/** All trials by the names that `--only` knows. */
export const TRIALS: ReadonlyMap<string, Trial> = new Map<string, Trial>([
  ['process-start', processStart],
  ['calls', calls],
  ['buffers', buffers],
  ['headers', headers],
  ['many-buffers', manyBuffers],
  ['every-byte', everyByte],
  ['cold', everyByteCold],
  ['one-tensor', oneTensor],
  ['memory', memory],
  ['checkpoint', checkpoint],
  ['reshard', reshardSmall],
  ['save', save],
  ['convert', convert],
  ['rows', rows],
  ['remote', remote],
  ['formats', formats],
  ['pickle', pickle],
  ['commands', commands],
]);
