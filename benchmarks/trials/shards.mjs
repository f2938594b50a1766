/** Checkpoints of several shards: a large one from the disk, and one of many shards and many small tensors. */
import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { freeTemporaryBytes } from '../command-line.mjs';
import { pick } from '../contenders.mjs';
import { formatByteSize } from '../figures.mjs';
import {
  dataByteLength,
  expertTensors,
  largeModelTensors,
  writeCheckpoint,
  writeModel,
  writeSparseModel,
} from '../models.mjs';
import { runChild } from '../processes.mjs';
import { growthOf } from './reading.mjs';

const READERS = pick('direct reusedShards streamedShards torchShards');
const TRUSTED = READERS.slice(0, 3);
const SHARDS = 8;
/** The checkpoint has 8.5 times the bytes of a model of 2 GB, which may have a little less; of a smaller one as many. */
const SIZE_FACTOR = 8.5;
const LEAST_MODEL_FOR_FACTOR = 1.9e9;

/** Every byte of a checkpoint that is read from the disk. */
const coldShards = {
  name: 'shards',
  contenders: READERS,
  prepare: async ({ path, folder, signal }) => {
    const { size } = statSync(path);
    const tensors = largeModelTensors(size * (size < LEAST_MODEL_FOR_FACTOR ? 1 : SIZE_FACTOR));
    const byteLength = dataByteLength(tensors);
    if ((await freeTemporaryBytes()) < byteLength) return { byteLength, why: 'too little disk' };
    const write = (shard, own, seed) => writeModel(shard, own, signal, seed);
    const index = await writeCheckpoint(join(folder, 'shards'), tensors, SHARDS, write);
    return { byteLength, index };
  },
  legs: ({ equipment, rounds }, { index }) => {
    if (index === undefined) return {};
    const base = { contenders: READERS, path: index, cache: 'cold', rounds, trusted: TRUSTED };
    return { read: { ...base, args: [equipment.programs], compared: ['everyByte'] } };
  },
  figures: { anonymous: growthOf('anonymous') },
  values: (_legs, _bench, { byteLength, why }) => ({
    size: formatByteSize(byteLength),
    bytesPerSecond: byteLength * 1e3,
    how:
      why === undefined
        ? 'each tensor is read as it comes, shard by shard in the order of the file'
        : `not measured: ${why}`,
  }),
  page: `
    ## {size} in ${SHARDS} shards, every byte read, cold
    | reader | every byte = everyByte | min – max = span(everyByte) | per second = $bytesPerSecond / everyByte MB | of the limit = everyByte / direct.everyByte × | RssAnon = anonymous +MB |
    - {how}
    - no tensor has more than 256 MiB; longer ones would be mapped, not read into the ring
    - {reasons}
    > {size} in ${SHARDS} shards, cold: stream({ reuse: true }), against O_DIRECT | at most 1.15 × | reusedShards.everyByte / direct.everyByte
    > {size} in ${SHARDS} shards, cold: stream({ reuse: true }), faster than the reference with torch | at least 2 × | torchShards.everyByte / reusedShards.everyByte`,
};

const OPENERS = pick('openIndex openEveryHeader pythonIndexKeys');
const WRITERS = pick('reshard copyFolder');
const MANY_SHARDS = 163;
const TENSORS = 92_000;
const NEW_SHARDS = 8;
const OPEN_ROUNDS = 40;
/** Copies vary more than readers. */
const LEAST_COPY_ROUNDS = 5;

/** As many shards and tensors as the largest models have: opened as the first of a process, and rewritten. */
const manyShards = {
  name: 'shards',
  contenders: [...OPENERS, ...WRITERS],
  prepare: async ({ path, folder, signal, size }) => {
    const tensors = expertTensors(size(TENSORS, TENSORS / 100));
    // No more of them are copied than would fit into the model.
    const [{ byteLength }] = tensors;
    const copied = tensors.slice(0, statSync(path).size / byteLength);
    const holes = (shard, own) => writeSparseModel(shard, own, { format: 'pt' });
    const weights = (shard, own, seed) => writeModel(shard, own, signal, seed);
    const sparse = await writeCheckpoint(join(folder, 'sparse'), tensors, MANY_SHARDS, holes);
    const full = await writeCheckpoint(join(folder, 'full'), copied, MANY_SHARDS, weights);
    const newShardSize = Math.ceil(copied.length / NEW_SHARDS) * byteLength;
    return { sparse, full, newShardSize, count: copied.length };
  },
  legs: ({ equipment, rounds, many, folder, signal }, { sparse, full, newShardSize }) => {
    const target = join(folder, 'target');
    const written = join(target, basename(full));
    const sum = { file: join(equipment.programs, 'limits'), args: ['direct', written] };
    /** With the sum of what was written. */
    const run = async (command) => {
      try {
        return { ...(await runChild(command, signal)), ...(await runChild(sum, signal)) };
      } finally {
        await rm(target, { recursive: true, force: true });
      }
    };
    const openRounds = ({ ours }) => (ours ? many(OPEN_ROUNDS) : rounds);
    const open = { contenders: OPENERS, path: sparse, args: ['0'], rounds: openRounds };
    const copy = { contenders: WRITERS, path: full, args: [target, `${newShardSize}`] };
    const copyRounds = Math.max(rounds, many(LEAST_COPY_ROUNDS));
    return {
      open: { ...open, compared: ['first'] },
      reshard: { ...copy, cache: 'warm', rounds: copyRounds, run, trusted: WRITERS },
    };
  },
  figures: { time: ({ first, elapsed }) => first ?? elapsed },
  values: (_legs, _bench, { count }) => ({ count }),
  page: `
    ## ${MANY_SHARDS} shards, 92 000 small tensors
    | what | time = time | min – max = span(time) | VmHWM = peak MB |
    - safeOpen reads the index and looks for the shards, whose headers are read when they are first used
    - opened: the first call of a process, everything imported; medians of ${OPEN_ROUNDS} of this package; the data is one hole
    - reshard and cp: {count} tensors of 4 kB in the page cache, nothing is synced; reshard makes ${NEW_SHARDS} shards
    - {reasons}
    > ${MANY_SHARDS} shards, every header | at most 80 ms | openEveryHeader.first | safeOpen = openIndex.first & Python = pythonIndexKeys.first
    > reshard of {count} small tensors against cp | at most 2 × | reshard.elapsed / copyFolder.elapsed`,
};

export const shards = [coldShards, manyShards];
