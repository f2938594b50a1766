/** A PyTorch checkpoint in the page cache: read, and converted to safetensors. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { freeTemporaryBytes } from '../command-line.mjs';
import { CONTENDERS, pick } from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { tensor, writeSparseModel } from '../models.mjs';
import { closelyCompared, growthOf } from './reading.mjs';
import { runWriter } from './saving.mjs';

/** The first reads the same weights from a safetensors file: the limit for a PyTorch checkpoint. */
const READERS = pick('same torchCheckpoint torchLoad torchMapped pickleparser jpickle');
const TRUSTED = READERS.slice(0, 1);
const closeRounds = closelyCompared(
  pick('same torchCheckpoint torchMapped ourTorchStart mappedStart'),
);

const readPickle = {
  name: 'pickle',
  contenders: READERS,
  legs: (bench) => {
    const base = { cache: 'warm', rounds: closeRounds(bench) };
    const read = { contenders: READERS, args: [bench.equipment.programs], trusted: TRUSTED };
    return {
      read: { ...base, ...read, compared: ['everyByte'] },
      start: { ...base, contenders: pick('ourTorchStart mappedStart'), clock: 'firstLine' },
    };
  },
  figures: { anonymous: growthOf('anonymous') },
  values: ({ start }) => {
    const { ourTorchStart, mappedStart } = CONTENDERS;
    const starters = { 'open("model.pt")': ourTorchStart, 'torch.load(mmap=True)': mappedStart };
    return { start: ({ name }) => start.median(starters[name], 'elapsed') };
  },
  page: `
    ## A PyTorch checkpoint in the page cache: opened, and every byte read
    | reader | open = open | first tensor = firstTensor | every byte = everyByte | of ours = everyByte / torchCheckpoint.everyByte × | RssAnon = anonymous MB | process to first byte = $start |
    - {reasons}
    > PyTorch checkpoint, open, against torch.load(mmap=True) | at most 1 × | torchCheckpoint.open / torchMapped.open
    > PyTorch checkpoint, every byte: faster than torch.load | at least 5 × | torchLoad.everyByte / torchCheckpoint.everyByte
    > PyTorch checkpoint, every byte, against torch.load(mmap=True) | at most 1 × | torchCheckpoint.everyByte / torchMapped.everyByte
    > PyTorch checkpoint, process start to the first byte: faster than torch.load(mmap=True) | at least 12 × | mappedStart.elapsed / ourTorchStart.elapsed`,
};

const CONVERTERS = pick('copy convertUnverified convert convertMapped convertPy');

/** Copies and conversions vary more than readers. */
const LEAST_ROUNDS = 5;
/** A single tensor of 6 GB, tried next to models of 2 GB and more: a model of 2 GB has a little less, or more. */
const LARGE_TENSOR = tensor('weight', 'BF16', 732_424, 4096);
const LEAST_MODEL_FOR_LARGE = 1.9e9;

/** A leg that converts the weights of `path`, which were saved by torch; the result must equal that file. */
function conversion(path, fileOf, rounds, signal) {
  // By this extension `convert` knows that it is asked for one file.
  const target = `${path}.converted.safetensors`;
  const run = async (command) => {
    const expected = command.args.includes('cp') ? await fileOf('torch') : path;
    return await runWriter(command, expected, target, signal);
  };
  const leg = { contenders: CONVERTERS, args: [target], cache: 'warm' };
  return { ...leg, rounds, run, fileOf };
}

const convertPickle = {
  name: 'pickle',
  prepare: async ({ path, folder }) => {
    if (statSync(path).size < LEAST_MODEL_FOR_LARGE) return { large: 'it is for models of 2 GB' };
    // The checkpoint and its conversion; the tensor itself is a hole.
    const isShort = (await freeTemporaryBytes()) < 2 * LARGE_TENSOR.byteLength;
    if (isShort) return { large: 'too little disk' };
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
  values: (_legs, _bench, { large }) => ({
    why: large === undefined ? 'one tensor, one round' : `not measured: ${large}`,
  }),
  page: `
    ## A PyTorch checkpoint in the page cache, converted to safetensors
    | program | time = model:elapsed | of cp = model:elapsed / model:copy.elapsed × | VmHWM = model:peak MB | 6 GB: time = large:elapsed | 6 GB: VmHWM = large:peak MB |
    - {reasons model}
    - 6 GB: {reasons large}
    - nothing is synced; VmHWM is the highest resident memory of the whole process, pages of files included
    - convert.py is in no package: a program of this repository takes its steps (load, drop shared tensors, save, compare the sizes, load again and compare the values)
    - 6 GB: {why}
    - torch.load(mmap=True) and save_file does not look whether the file is right
    > convert, verify: false, against torch.load(mmap=True) and save_file | at most 1 × | model:convertUnverified.elapsed / model:convertMapped.elapsed
    > convert against torch.load(mmap=True) and save_file | at most 0.7 × | model:convert.elapsed / model:convertMapped.elapsed
    > convert: faster than the steps of convert.py | at least 2 × | model:convertPy.elapsed / model:convert.elapsed
    > convert, verify: false, durable: false, against cp | at most 1.3 × | model:convertUnverified.elapsed / model:copy.elapsed | ours = model:convertUnverified.elapsed & cp = model:copy.elapsed
    > convert, durable: false, against cp | at most 1.8 × | model:convert.elapsed / model:copy.elapsed | ours = model:convert.elapsed & cp = model:copy.elapsed
    > convert: VmHWM against the steps of convert.py | at most 0.1 × | model:convert.peak / model:convertPy.peak | ours = model:convert.peak MB & theirs = model:convertPy.peak MB
    > convert of one tensor of 6 GB: VmHWM against the steps of convert.py | at most 0.1 × | large:convert.peak / large:convertPy.peak | ours = large:convert.peak MB & theirs = large:convertPy.peak MB`,
};

export const pickle = [readPickle, convertPickle];
