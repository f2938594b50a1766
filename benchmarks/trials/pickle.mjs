/** A checkpoint of torch in the page cache: read, and converted to safetensors. */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { freeTemporaryBytes } from '../command-line.mjs';
import * as all from '../contenders.mjs';
import { copiesOf } from '../equipment.mjs';
import { formatByteSize, formatDuration, formatRatio } from '../figures.mjs';
import { Measured, tableOf } from '../measure.mjs';
import { tensor, writeSparseModel } from '../models.mjs';
import { NotMeasuredError, runChild, timeProcess } from '../processes.mjs';
import { selectAll } from '../selection.mjs';
import { targetsOf } from '../targets.mjs';
import { growthOf, TRUSTED } from './reading.mjs';
import { haveSameBytes } from './writing.mjs';

const { contender, OURS, ours, TORCH_CHECKPOINT, TORCH_LOAD, TORCH_MAPPED } = all;

/** This package reading the same weights from a safetensors file: what a checkpoint of torch can reach. */
const READERS = [OURS, TORCH_CHECKPOINT, TORCH_LOAD, TORCH_MAPPED, ...all.PICKLE_READERS];
/** Readers that are compared within hundredths, and processes that are short, have more rounds. */
const CLOSE_READERS = [OURS, TORCH_CHECKPOINT, TORCH_MAPPED];
const CLOSE_FACTOR = 5;
const STARTERS = [all.OUR_TORCH_START, all.MAPPED_START];

export const readPickle = {
  name: 'pickle',
  legs: ({ equipment, path, rounds, signal }) => {
    const roundsOf = (contender) => (CLOSE_READERS.includes(contender) ? CLOSE_FACTOR : 1) * rounds;
    const args = [equipment.programs, ...selectAll(path)];
    const run = async (command) => ({ elapsed: (await timeProcess(command, signal)).firstLine });
    const start = { contenders: STARTERS, cache: 'warm', run };
    return {
      read: {
        contenders: READERS,
        cache: 'warm',
        rounds: roundsOf,
        args,
        trusted: TRUSTED,
        figures: ['everyByte'],
      },
      // Brings the programs themselves into the page cache; not counted.
      before: { ...start, rounds: 1, figures: [] },
      start: { ...start, rounds: CLOSE_FACTOR * rounds },
    };
  },
  report: ({ read, start }) => {
    const time = (contender) => read.median(contender, 'everyByte');
    const [ours, load, mapped] = [TORCH_CHECKPOINT, TORCH_LOAD, TORCH_MAPPED].map(time);
    const [ourStart, mappedStart] = STARTERS.map((contender) => start.median(contender, 'elapsed'));
    const starts = new Map([
      [TORCH_CHECKPOINT, ourStart],
      [TORCH_MAPPED, mappedStart],
    ]);
    const [head, first, ...rows] = tableOf(
      'reader | open | first tensor | every byte | of ours | RssAnon | process to first byte',
      READERS,
      ...['open', 'firstTensor', 'everyByte'].map((figure) => read.show(figure)),
      (contender) => formatRatio(time(contender) / ours),
      read.show(growthOf('anonymous'), formatByteSize),
      (contender) => formatDuration(starts.get(contender) ?? Number.NaN),
    );
    return {
      title: 'A checkpoint of torch in the page cache: opened, and every byte read',
      rows: [head, first.with(0, `${OURS.name}, the same as safetensors`), ...rows],
      notes: read.reasons,
      targets: targetsOf(
        { ours, load, mapped, ourStart, mappedStart },
        `
        checkpoint of torch, every byte: faster than torch.load | at least 5 × | load / ours
        checkpoint of torch, every byte, against torch.load(mmap=True) | at most 1 × | ours / mapped
        checkpoint of torch, process start to the first byte: faster than torch.load(mmap=True) | at least 12 × | mappedStart / ourStart`,
      ),
    };
  },
};

const TORCH_FILE = { format: 'torch' };
const VERIFIED = ours('convert', 'work.mjs', 'convert', TORCH_FILE);
const UNVERIFIED = ours('convert, verify: false', 'work.mjs', 'convert-unverified', TORCH_FILE);
const COPY = contender('cp', 'work.mjs', 'cp', TORCH_FILE);
const REFERENCE = contender('the steps of convert.py, Python', 'convert_checkpoint.py', '-', {
  ...TORCH_FILE,
  ...all.TORCH,
});
const CONVERTERS = [COPY, UNVERIFIED, VERIFIED, REFERENCE];

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
  return { contenders: CONVERTERS, args: [target], cache: 'warm', rounds, run, fileOf };
}

export const convertPickle = {
  name: 'pickle',
  prepare: async ({ path, folder }) => {
    if ((await stat(path)).size < LEAST_MODEL_FOR_LARGE)
      return { reason: 'it is for models of 2 GB' };
    // The checkpoint and what is made of it; the tensor itself is a hole.
    if ((await freeTemporaryBytes()) < 2 * LARGE_TENSOR.byteLength)
      return { reason: 'too little disk' };
    const large = join(folder, 'large.safetensors');
    await writeSparseModel(large, [LARGE_TENSOR], { format: 'pt' });
    return { large };
  },
  legs: ({ equipment, folder, path, rounds, many, signal }, { large }) => {
    const times = Math.max(rounds, many(LEAST_ROUNDS));
    const model = conversion(path, equipment.fileOf, times, signal);
    if (large === undefined) return { model };
    const fileOf = copiesOf(large, join(folder, 'large'), equipment.python, signal);
    return { model, large: { ...conversion(large, fileOf, 1, signal), figures: [] } };
  },
  report: ({ model, large = new Measured([]) }, _, { reason }) => {
    const [copied, unverified, verified, theirs] = CONVERTERS.map((one) =>
      model.median(one, 'elapsed'),
    );
    const [peak, theirPeak] = [VERIFIED, REFERENCE].map((one) => model.median(one, 'peak'));
    const [largePeak, theirLargePeak] = [VERIFIED, REFERENCE].map((one) =>
      large.median(one, 'peak'),
    );
    const ofCopy = ({ elapsed }) => elapsed / copied;
    const values = {
      copied,
      unverified,
      verified,
      theirs,
      peak,
      theirPeak,
      largePeak,
      theirLargePeak,
    };
    return {
      title: 'A checkpoint of torch in the page cache, converted to safetensors',
      rows: tableOf(
        'program | time | of cp | VmHWM | 6 GB: time | 6 GB: VmHWM',
        CONVERTERS,
        model.show('elapsed'),
        model.show(ofCopy, formatRatio),
        model.show('peak', formatByteSize),
        large.show('elapsed'),
        large.show('peak', formatByteSize),
      ),
      notes: [
        ...model.reasons,
        ...large.reasons.map((text) => `6 GB: ${text}`),
        'nothing is synced; VmHWM is the highest resident memory of the whole process, pages of files included',
        'convert.py is in no package: a program of this repository takes its steps (load, drop shared tensors, save, ' +
          'compare the sizes, load again and compare the values)',
        `6 GB: ${reason === undefined ? 'one tensor, one round' : `not measured: ${reason}`}`,
      ],
      targets: targetsOf(
        values,
        `
        convert: faster than the steps of convert.py | at least 2 × | theirs / verified
        convert, verify: false, durable: false, against cp | at most 1.3 × | unverified / copied | ours = unverified & cp = copied
        convert, durable: false, against cp | at most 1.8 × | verified / copied | ours = verified & cp = copied
        convert: VmHWM against the steps of convert.py | at most 0.1 × | peak / theirPeak | ours = peak & theirs = theirPeak (MB)
        convert of one tensor of 6 GB: VmHWM against the steps of convert.py | at most 0.1 × | largePeak / theirLargePeak | ours = largePeak & theirs = theirLargePeak (MB)`,
      ),
    };
  },
};
