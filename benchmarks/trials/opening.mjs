/** Processes up to a first byte, opening files, handing out tensors: what costs before a byte is read. */
import { join } from 'node:path';
import { CONTENDERS, pick } from '../contenders.mjs';
import { formatByteSize, median } from '../figures.mjs';
import { manySmallTensors, tensor, writeSparseModel } from '../models.mjs';
import { selectAll } from '../selection.mjs';

/** Short measurements are noisy, and so are the differences between them. */
const SHORT_ROUNDS = 40;

/** A limit in a release of Node: before 22, before 24, and later. */
export function ofNode(node, ...limits) {
  const major = Number.parseInt(node, 10);
  return limits[major < 22 ? 0 : major < 24 ? 1 : 2];
}
const here = (...limits) => ofNode(process.versions.node, ...limits);

/** From starting a process until it has printed the first byte of the first tensor. */
export const processStart = {
  name: 'process-start',
  legs: ({ rounds, many }) => {
    const [node, python] = [
      pick('nodeStart ourStart'),
      pick('numpyStart torchStart mappedStart pickleStart'),
    ];
    const clock = 'first line';
    return {
      // Brings the programs themselves into the page cache.
      before: { contenders: [...node, ...python], rounds: 1, clock, isWarmUp: true },
      node: { contenders: node, rounds: many(SHORT_ROUNDS), clock },
      import: { contenders: pick('import'), rounds: many(SHORT_ROUNDS) },
      python: { contenders: python, rounds, clock },
    };
  },
  values: ({ node }) => ({ excess: node.excess(CONTENDERS.ourStart, CONTENDERS.nodeStart) }),
  page: `
    ## Process start to the first tensor's first byte
    | program | wall time = elapsed | ratio = elapsed / ourStart.elapsed 1× |
    - programs of Node: medians of ${SHORT_ROUNDS}
    - {reasons}
    > process start to the first byte, above Node alone | at most 12 ms | $excess | Node alone = nodeStart.elapsed
    > import | at most 10 ms | import.elapsed
    > process start to the first byte: faster than Python with torch | at least 10 × | torchStart.elapsed / ourStart.elapsed`,
};

/** Passes through all tensors before the calls that count, and passes that count. */
const PASSES = 500;

/** Calls on the open model: its buffers for the first time, and a tensor once more. */
export const calls = {
  name: 'calls',
  legs: ({ rounds, many }) => {
    const roundsOf = (contender) => (contender.ours ? many(SHORT_ROUNDS) : rounds);
    const leg = { contenders: pick('calls torchCalls'), rounds: roundsOf, args: [`${PASSES}`] };
    return { calls: { ...leg, compared: ['first', 'all', 'again'] } };
  },
  page: `
    ## Calls on the open model, in a fresh process
    | reader | first tensor with its memory = first | all 147 = all | getTensor again = again |
    - {reasons}
    - this package: medians of ${SHORT_ROUNDS}
    - again: ${PASSES} passes through the names, after as many that do not count; this package gives the same tensor, Python a new one
    > first buffer of a process | at most 0.7 ms | calls.first | Python with torch = torchCalls.first
    > all 147 buffers | at most 2 ms | calls.all | Python with torch = torchCalls.all
    > getTensor again | at most 0.0004 ms | calls.again | Python with torch = torchCalls.again`,
};

/** A model of 120 GB in tensors of 134 MB, and about 230 MB of objects. */
const LARGE_TENSORS = 894;
const LARGE_TENSOR_BYTES = 2 ** 27;
const LIVE_OBJECTS = 2_000_000;

/** Buffers over the tensors of a large model, beside live objects: what the garbage collector makes of them. */
export const buffers = {
  name: 'buffers',
  prepare: async ({ folder, size }) => {
    const path = join(folder, 'large.safetensors');
    const names = Array.from({ length: size(LARGE_TENSORS, 10) }, (_, i) => `layer.${i}`);
    await writeSparseModel(
      path,
      names.map((name) => tensor(name, 'U8', LARGE_TENSOR_BYTES)),
    );
    return { path };
  },
  legs: ({ rounds, size }, { path }) => {
    // Half a minute each when they are counted: once is enough.
    const roundsOf = (contender) => (contender === CONTENDERS.countedBuffers ? 1 : rounds);
    const args = [`${size(LIVE_OBJECTS, 10_000)}`];
    const leg = { contenders: pick('buffers countedBuffers'), rounds: roundsOf, path, args };
    return { buffers: { ...leg, compared: ['first', 'all'] } };
  },
  values: ({ buffers }, { size }) => {
    const [line] = buffers.lines(CONTENDERS.buffers);
    return {
      count: size(LARGE_TENSORS, 10),
      live: formatByteSize(buffers.median(CONTENDERS.buffers, 'liveBytes')),
      counted: line?.counted
        ? `- V8 counts the buffers of this package here, because ${line.counted}`
        : '',
    };
  },
  page: `
    ## {count} buffers of 134 MB beside {live} of live objects
    | how | first buffer = first | all = all | full collections = collections # |
    - {reasons}
    - a sparse file, of which no byte is read; counted: one process
    {counted}
    > the first of 894 buffers of 134 MB | at most 0.7 ms | buffers.first
    > 894 buffers of 134 MB beside 200 MB of live objects | at most 25 ms | buffers.all | counted = countedBuffers.all
    > 894 buffers of 134 MB, full collections | at most 0 # | buffers.collections | counted = countedBuffers.collections #`,
};

const OPENERS = pick('open keys json sortedJson pythonOpen pythonKeys');

/** Files up to so many tensors take milliseconds: more rounds in JavaScript, and calls after the first one. */
const SHORT_UP_TO = 10_000;
const LATER_CALLS = 20;
/** Rivals take half a minute for a file of more. */
const LONG_ABOVE = 100_000;

/** Files by the labels of their rows: tensors, blanks before the members of the header, usually in one line. */
const RUNGS = {
  'the model': [0, 0],
  '1 000': [1000, 0],
  '10 000': [10_000, 0],
  '100 000': [100_000, 0],
  '1 000 000': [1_000_000, 0],
  '1 000, indented': [1000, 1],
  '100 000, indented': [100_000, 1],
};

/** The names of a file, beside what the best rival in JavaScript takes. */
const sortedKeys = (label, limit) =>
  `> ${label} tensors, open + keys() against JSON.parse + checks, names sorted | at most ${limit} × | ${label}:keys.first / ${label}:sortedJson.first`;
const gain = (label, what, limit, ours, theirs) =>
  `> ${label} tensors, ${what} | at least ${limit} × | ${label}:${theirs}.first / ${label}:${ours}.first`;

/** Files with many tensors, opened as the first file of a process, and their names listed. */
export const headers = {
  name: 'headers',
  prepare: async ({ path, folder, size }) => {
    const paths = { 'the model': path };
    for (const [label, [count, indent]] of Object.entries(RUNGS).slice(1)) {
      paths[label] = join(folder, `${label}.safetensors`);
      await writeSparseModel(paths[label], manySmallTensors(size(count, count / 100)), {}, indent);
    }
    return paths;
  },
  legs: ({ rounds, many }, paths) => {
    const leg = ([label, [count]]) => {
      const isShort = count <= SHORT_UP_TO;
      const roundsOf = ({ program, ours }) => {
        if (isShort && program === 'headers.mjs') return many(SHORT_ROUNDS);
        return count > LONG_ABOVE && !ours ? 1 : rounds;
      };
      const files = { path: paths[label], args: [String(isShort ? LATER_CALLS : 0)] };
      return [label, { contenders: OPENERS, rounds: roundsOf, ...files, compared: ['first'] }];
    };
    return Object.fromEntries(Object.entries(RUNGS).map(leg));
  },
  figures: { later: ({ later }) => median(later) },
  rows: (read) => {
    const row = (label, what, expression) => [
      label + what,
      ...OPENERS.map((one) => read(expression, one).text),
    ];
    const lines = Object.keys(RUNGS).flatMap((label) => [
      row(label, '', `${label}:first`),
      row(label, ', later calls', `${label}:later`),
    ]);
    const measured = lines.filter(([, ...cells]) => cells.some((cell) => cell !== '–'));
    return [['tensors', ...OPENERS.map(({ name }) => name)], ...measured];
  },
  page: `
    ## Headers of many tensors, opened in a fresh process
    - {reasons}
    - JavaScript up to ${SHORT_UP_TO} tensors: medians of ${SHORT_ROUNDS}; rivals above ${LONG_ABOVE}: one process
    - the first call of a process, then medians of ${LATER_CALLS} later calls of the same process, for every reader
    - the first open of a process also loads the addon, which JSON.parse has no use for
    - JavaScript: young garbage of the imports is collected before the first call
    - JSON.parse + checks does not notice a name that comes twice
    > open, 147 tensors, first of the process | at most ${here(1.5, 1.2, 1.2)} ms | the model:open.first | JSON.parse + checks = the model:json.first & Python open = the model:pythonOpen.first
    ${sortedKeys('1 000', 1.15)}
    ${sortedKeys('10 000', 1.15)}
    > 100 000 tensors, open + keys() | at most 60 ms | 100 000:keys.first | JSON.parse + checks, names sorted = 100 000:sortedJson.first & Python open + keys() = 100 000:pythonKeys.first
    ${gain('100 000', 'open: faster than JSON.parse + checks', 2.5, 'open', 'json')}
    ${sortedKeys('100 000, indented', 1)}
    ${gain('100 000', 'open + keys(): faster than Python open + keys()', 2, 'keys', 'pythonKeys')}
    > 1 000 000 tensors, open | at most 1.5 s | 1 000 000:open.first
    ${gain('1 000 000', 'open: faster than Python open', 3, 'open', 'pythonOpen')}`,
};

const MANY_TENSORS = 100_000;
/** What is collected meanwhile makes rounds differ: so many times as many. */
const ROUNDS_FACTOR = 5;

/** A file of very many tensors: opened, and the memory of each handed out. */
export const manyBuffers = {
  name: 'many-buffers',
  prepare: async ({ folder, size }) => {
    const path = join(folder, 'many-buffers.safetensors');
    await writeSparseModel(path, manySmallTensors(size(MANY_TENSORS, 1000)));
    return { path };
  },
  legs: ({ equipment, rounds, many }, { path }) => {
    const args = [equipment.programs, ...selectAll(path)];
    const leg = {
      contenders: pick('ours python'),
      rounds: many(ROUNDS_FACTOR) * rounds,
      path,
      args,
    };
    return { many: { ...leg, trusted: pick('ours'), compared: ['open', 'handedOut'] } };
  },
  values: (_, { rounds, many, size }) => ({
    count: size(MANY_TENSORS, 1000),
    rounds: many(ROUNDS_FACTOR) * rounds,
  }),
  page: `
    ## {count} tensors of 512 bytes, opened and handed out
    | reader | open = open | all handed out = handedOut |
    - {reasons}
    - medians of {rounds}; every tensor of this package is an ArrayBuffer of its own, Python's are views of one mapping
    > 100 000 buffers, opening included | at most ${here(450, 400, 350)} ms | ours.handedOut | ${CONTENDERS.python.name} = python.handedOut`,
};
