/**
 * The trials as data, in the order in which they are run and shown. A trial has
 * - `name`, which `--only` knows; those that share one belong together;
 * - `prepare`, which writes the trial's files into a temporary folder, and returns the facts that its legs need;
 * - `legs`, each with its contenders as data, as `measure` describes them;
 * - `page`, the lines of its section, and `values`, `figures`, `rows` and `chart` for it: `section.mjs` has them.
 */
import { casts } from './trials/casts.mjs';
import { commands } from './trials/commands.mjs';
import { digests } from './trials/digests.mjs';
import { formats } from './trials/formats.mjs';
import { gguf } from './trials/gguf.mjs';
import { many } from './trials/many.mjs';
import { merging } from './trials/merging.mjs';
import { network } from './trials/network.mjs';
import { opening } from './trials/opening.mjs';
import { pickle } from './trials/pickle.mjs';
import { quantized } from './trials/quantized.mjs';
import { reading } from './trials/reading.mjs';
import { rows } from './trials/rows.mjs';
import { save } from './trials/saving.mjs';
import { shards } from './trials/shards.mjs';

export const TRIALS = [
  ...opening,
  ...reading,
  ...shards,
  rows,
  network,
  save,
  many,
  digests,
  casts,
  quantized,
  gguf,
  merging,
  formats,
  ...pickle,
  ...commands,
];

/** The names of the trials. */
export const NAMES = [...new Set(TRIALS.map(({ name }) => name))];
