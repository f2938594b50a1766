/** A checkpoint of torch in the page cache: read, and converted to safetensors. */
import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { freeTemporaryBytes } from '../command-line.mjs';
import * as all from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { tensor, writeSparseModel } from '../models.mjs';
import { NotMeasuredError, runChild } from '../processes.mjs';
import { selectAll } from '../selection.mjs';
import { growthOf, TRUSTED } from './reading.mjs';
import { haveSameBytes } from './writing.mjs';

const {
  contender,
  MAPPED_START,
  OURS,
  ours,
  OUR_TORCH_START,
  TORCH_CHECKPOINT,
  TORCH_LOAD,
  TORCH_MAPPED,
} = all;

/** This package reading the same weights from a safetensors file: what a checkpoint of torch can reach. */
const READERS = [OURS, TORCH_CHECKPOINT, TORCH_LOAD, TORCH_MAPPED, ...all.PICKLE_READERS];
/** Readers that are compared within hundredths, and processes that are short, have more rounds. */
const CLOSE_READERS = [OURS, TORCH_CHECKPOINT, TORCH_MAPPED];
const CLOSE_FACTOR = 5;

export const readPickle = {
  name: 'pickle',
  names: {
    ...{ ours: TORCH_CHECKPOINT, load: TORCH_LOAD, mapped: TORCH_MAPPED },
    ...{ ourStart: OUR_TORCH_START, mappedStart: MAPPED_START },
  },
  contenders: READERS,
  labels: new Map([[OURS, `${OURS.name}, the same as safetensors`]]),
  legs: ({ equipment, path, rounds }) => {
    const roundsOf = (contender) => (CLOSE_READERS.includes(contender) ? CLOSE_FACTOR : 1) * rounds;
    const args = [equipment.programs, ...selectAll(path)];
    const read = { contenders: READERS, cache: 'warm', rounds: roundsOf, args, trusted: TRUSTED };
    const start = {
      contenders: [OUR_TORCH_START, MAPPED_START],
      cache: 'warm',
      clock: 'first line',
    };
    return {
      read: { ...read, compared: ['everyByte'] },
      // Brings the programs themselves into the page cache.
      before: { ...start, rounds: 1, isWarmUp: true },
      start: { ...start, rounds: CLOSE_FACTOR * rounds },
    };
  },
  figures: { anonymous: growthOf('anonymous') },
  values: ({ start }) => {
    const starters = new Map([
      [TORCH_CHECKPOINT, OUR_TORCH_START],
      [TORCH_MAPPED, MAPPED_START],
    ]);
    return { start: (reader) => start.median(starters.get(reader), 'elapsed') };
  },
  page: `
    ## A checkpoint of torch in the page cache: opened, and every byte read
    | reader | open = open | first tensor = firstTensor | every byte = everyByte | of ours = everyByte / ours.everyByte × | RssAnon = anonymous MB | process to first byte = $start |
    - {reasons}
    > checkpoint of torch, every byte: faster than torch.load | at least 5 × | load.everyByte / ours.everyByte
    > checkpoint of torch, every byte, against torch.load(mmap=True) | at most 1 × | ours.everyByte / mapped.everyByte
    > checkpoint of torch, process start to the first byte: faster than torch.load(mmap=True) | at least 12 × | mappedStart.elapsed / ourStart.elapsed`,
};

const TORCH_FILE = { format: 'torch' };
const converters = {
  cp: contender('cp', 'work.mjs', 'cp', TORCH_FILE),
  unverified: ours('convert, verify: false', 'work.mjs', 'convert-unverified', TORCH_FILE),
  ours: ours('convert', 'work.mjs', 'convert', TORCH_FILE),
  theirs: contender('the steps of convert.py, Python', 'convert_checkpoint.py', '-', {
    ...all.TORCH,
    ...TORCH_FILE,
  }),
};

/** Copies and conversions vary more than readers. */
const LEAST_ROUNDS = 5;
/** A single tensor of 6 GB, tried beside models of 2 GB and more: a model of 2 GB has a little less, or more. */
const LARGE_TENSOR = tensor('weight', 'BF16', 732_424, 4096);
const LEAST_MODEL_FOR_LARGE = 1.9e9;

/** A leg that converts the weights of `path`, which were saved by torch; the outcome must be that file. */
function conversion(path, fileOf, rounds, signal) {
  // By this extension `convert` knows that it is asked for one file.
  const target = `${path}.converted.safetensors`;
  const run = async (command) => {
    try {
      const line = await runChild(command, signal);
      const expected = command.args.includes('cp') ? await fileOf('torch') : path;
      if (!(await haveSameBytes(expected, target))) throw new NotMeasuredError('wrote other bytes');
      return line;
    } finally {
      await rm(target, { force: true });
    }
  };
  return {
    contenders: Object.values(converters),
    args: [target],
    cache: 'warm',
    rounds,
    run,
    fileOf,
  };
}

export const convertPickle = {
  name: 'pickle',
  names: converters,
  prepare: async ({ path, folder }) => {
    if (statSync(path).size < LEAST_MODEL_FOR_LARGE) return { large: 'it is for models of 2 GB' };
    // The checkpoint and what is made of it; the tensor itself is a hole.
    if ((await freeTemporaryBytes()) < 2 * LARGE_TENSOR.byteLength)
      return { large: 'too little disk' };
    await writeSparseModel(join(folder, 'large.safetensors'), [LARGE_TENSOR], { format: 'pt' });
    return {};
  },
  legs: ({ equipment, folder, path, rounds, many, signal }, { large }) => {
    const model = conversion(path, equipment.fileOf, Math.max(rounds, many(LEAST_ROUNDS)), signal);
    if (large !== undefined) return { model };
    const source = join(folder, 'large.safetensors');
    const fileOf = copiesOf(source, join(folder, 'large'), equipment.python, signal);
    return { model, large: { ...conversion(source, fileOf, 1, signal), compared: [] } };
  },
  values: (legs, _, { large }) => ({
    why: large === undefined ? 'one tensor, one round' : `not measured: ${large}`,
    modelReasons: legs.model.reasons.map((text) => `- ${text}`).join('\n'),
    largeReasons: (legs.large?.reasons ?? []).map((text) => `- 6 GB: ${text}`).join('\n'),
  }),
  page: `
    ## A checkpoint of torch in the page cache, converted to safetensors
    | program | time = model:elapsed | of cp = model:elapsed / model:cp.elapsed × | VmHWM = model:peak MB | 6 GB: time = large:elapsed | 6 GB: VmHWM = large:peak MB |
    {modelReasons}
    {largeReasons}
    - nothing is synced; VmHWM is the highest resident memory of the whole process, pages of files included
    - convert.py is in no package: a program of this repository takes its steps (load, drop shared tensors, save, compare the sizes, load again and compare the values)
    - 6 GB: {why}
    > convert: faster than the steps of convert.py | at least 2 × | model:theirs.elapsed / model:ours.elapsed
    > convert, verify: false, durable: false, against cp | at most 1.3 × | model:unverified.elapsed / model:cp.elapsed | ours = model:unverified.elapsed & cp = model:cp.elapsed
    > convert, durable: false, against cp | at most 1.8 × | model:ours.elapsed / model:cp.elapsed | ours = model:ours.elapsed & cp = model:cp.elapsed
    > convert: VmHWM against the steps of convert.py | at most 0.1 × | model:ours.peak / model:theirs.peak | ours = model:ours.peak MB & theirs = model:theirs.peak MB
    > convert of one tensor of 6 GB: VmHWM against the steps of convert.py | at most 0.1 × | large:ours.peak / large:theirs.peak | ours = large:ours.peak MB & theirs = large:theirs.peak MB`,
};
