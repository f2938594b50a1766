/**
 * The trials as data, in the order in which they are run and shown. A trial has
 * - `name`, which `--only` knows; those that share one belong together;
 * - `prepare`, which writes the trial's files into a temporary folder, and returns the facts that its legs need;
 * - `legs`, each with its contenders as data, as `measure` describes them;
 * - `page`, the lines of its section, and `values`, `figures`, `rows`, `labels` and `chart` for it: `section.mjs` has them.
 */

import { casts } from './trials/casts.mjs';
import { commands } from './trials/commands.mjs';
import { formats } from './trials/formats.mjs';
import { headers, processStart } from './trials/opening.mjs';
import { convertPickle, readPickle } from './trials/pickle.mjs';
import { everyByte, everyByteCold, memory } from './trials/reading.mjs';
import { rows } from './trials/rows.mjs';
import { save } from './trials/saving.mjs';

export const TRIALS = [
  processStart,
  headers,
  everyByte,
  everyByteCold,
  memory,
  rows,
  save,
  casts,
  formats,
  readPickle,
  convertPickle,
  commands,
];

/** The names of the trials. */
export const NAMES = [...new Set(TRIALS.map(({ name }) => name))];
