// The operations that run while calls fail, the power goes and processes are killed: all that read or write files.
import { mapping, opening, reading, verifying } from './reading-operations.mjs';
import {
  converting,
  downloading,
  editing,
  merging,
  resharding,
  saving,
} from './writing-operations.mjs';

/** Files of the bundle that the operations of a group load on their first call. */
const CHUNKS = {
  open: ['foreign'],
  merge: ['merging'],
  convert: ['foreign', 'conversion'],
  download: ['download'],
};

/** Loads a group's own modules, so that processes of other groups start sooner. */
export async function load(group) {
  for (const name of CHUNKS[group] ?? []) await import(`../../lib/${name}.js`);
}

/** Those whose target is the folder of a checkpoint. */
const CHECKPOINTS =
  /^(?:saveCheckpoint|reshard|convert to a folder|convert of a (?:distributed|pipeline)|download of a folder)/;

/** Groups that write. */
const WRITING = ['save', 'edit', 'reshard', 'merge', 'convert', 'download'];

/** All operations: their group, the preparation of the folder, the call, and its needs. */
export const OPERATIONS = Object.entries({
  open: opening,
  map: mapping,
  read: reading,
  verify: verifying,
  save: saving,
  edit: editing,
  reshard: resharding,
  merge: merging,
  convert: converting,
  download: downloading,
}).flatMap(([group, operations]) =>
  operations.map(([name, make, run, needs]) => {
    const isCheckpoint = CHECKPOINTS.test(name);
    const isWriting = WRITING.includes(group);
    const isDurable = isWriting && !name.endsWith('not durable');
    return { group, name, make, run, needs, isCheckpoint, isWriting, isDurable };
  }),
);
