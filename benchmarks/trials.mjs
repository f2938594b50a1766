/**
 * The trials as data, in the order in which they are run and shown. A trial has
 * - `name`, which `--only` knows; those that share one belong together;
 * - `prepare`, which writes what it reads, in a folder that is removed, and gives what its legs need to know;
 * - `legs`, each with its contenders as data, as `measure` describes them;
 * - `report`, which makes a section of the page out of what was measured.
 */

import { commands } from './trials/commands.mjs';
import { formats } from './trials/formats.mjs';
import { buffers, calls, headers, manyBuffers, processStart } from './trials/opening.mjs';
import { convertPickle, readPickle } from './trials/pickle.mjs';
import { everyByte, everyByteCold, memory, oneTensor } from './trials/reading.mjs';
import { remote } from './trials/remote.mjs';
import { casts, rows } from './trials/values.mjs';
import { checkpoint, reshard, save } from './trials/writing.mjs';

export const TRIALS = [
  processStart,
  calls,
  buffers,
  headers,
  manyBuffers,
  everyByte,
  everyByteCold,
  oneTensor,
  memory,
  checkpoint,
  reshard,
  save,
  casts,
  rows,
  remote,
  formats,
  readPickle,
  convertPickle,
  commands,
];

/** The names of the trials. */
export const NAMES = [...new Set(TRIALS.map(({ name }) => name))];
