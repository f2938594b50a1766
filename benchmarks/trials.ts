/** The trials as data, in the order in which they are run and shown. */
import { COLD_READERS, MEMORY_READERS, READERS, STARTERS } from './drivers.js';
import { checkpointTrial } from './trials/checkpoint.js';
import { collectionsTrial } from './trials/collections.js';
import type { Trial } from './trials/context.js';
import { convertTrial } from './trials/convert.js';
import { coldTrial, everyByteTrial } from './trials/every-byte.js';
import { headersTrial } from './trials/headers.js';
import { lookupTrial } from './trials/lookup.js';
import { memoryTrial } from './trials/memory.js';
import { middleTensorTrial } from './trials/middle-tensor.js';
import { openCallTrial } from './trials/open-call.js';
import { partitionTrial } from './trials/partition.js';
import { prefetchTrial } from './trials/prefetch.js';
import { processStartTrial } from './trials/process-start.js';
import { reshardTrial } from './trials/reshard.js';
import { saveTrial } from './trials/save.js';
import { scaleTrial } from './trials/scale.js';

/** All trials. */
export const TRIALS: readonly Trial[] = [
  { name: 'every-byte', drivers: READERS, run: everyByteTrial },
  { name: 'cold', drivers: COLD_READERS, run: coldTrial },
  { name: 'prefetch', drivers: [], run: prefetchTrial },
  { name: 'middle-tensor', drivers: COLD_READERS, run: middleTensorTrial },
  { name: 'memory', drivers: MEMORY_READERS, run: memoryTrial },
  { name: 'process-start', drivers: STARTERS, run: processStartTrial },
  { name: 'open-call', drivers: [], run: openCallTrial },
  { name: 'headers', drivers: [], run: headersTrial },
  { name: 'lookup', drivers: [], run: lookupTrial },
  { name: 'convert', drivers: [], run: convertTrial },
  { name: 'scale', drivers: [], run: scaleTrial },
  { name: 'save', drivers: [], written: 1, run: saveTrial },
  { name: 'reshard', drivers: [], written: 2, run: reshardTrial },
  { name: 'checkpoint', drivers: [], run: checkpointTrial },
  { name: 'partition', drivers: [], run: partitionTrial },
  { name: 'collections', drivers: [], run: collectionsTrial },
];

/** Names for several trials at once. */
const GROUPS: ReadonlyMap<string, readonly string[]> = new Map([
  ['figures', ['every-byte', 'process-start', 'open-call', 'collections']],
  ['reading', ['every-byte', 'cold', 'middle-tensor', 'memory']],
]);

/** What `--only` knows. */
export const TRIAL_NAMES: readonly string[] = [...TRIALS.map(({ name }) => name), ...GROUPS.keys()];

/** Trials and groups by their names, separated by commas; undefined when one is unknown. */
export function findTrials(names: string): readonly Trial[] | undefined {
  const wanted = names.split(',').flatMap((name) => GROUPS.get(name.trim()) ?? [name.trim()]);
  const known = new Set(TRIALS.map(({ name }) => name));
  if (!wanted.every((name) => known.has(name))) return undefined;
  return TRIALS.filter(({ name }) => wanted.includes(name));
}
