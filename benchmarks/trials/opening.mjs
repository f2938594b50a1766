/** Processes up to a first byte, and headers of many tensors: the cost before a byte is read. */
import { join } from 'node:path';
import { CONTENDERS, pick } from '../contenders.mjs';
import { median } from '../figures.mjs';
import { manySmallTensors, writeSparseModel } from '../models.mjs';

/** Short measurements are noisy, and so are the differences between them. */
const SHORT_ROUNDS = 40;

const isNode20 = process.versions.node.startsWith('20.');

const PYTHON_STARTS = pick('numpyStart torchStart mappedStart pickleStart');

/** From starting a process until it has printed the first byte of the first tensor. */
const processStart = {
  name: 'process-start',
  legs: ({ rounds, many }) => {
    const [clock, short] = ['firstLine', many(SHORT_ROUNDS)];
    return {
      node: { contenders: pick('nodeStart ourStart'), rounds: short, clock },
      import: { contenders: pick('import'), rounds: short },
      python: { contenders: PYTHON_STARTS, rounds, clock },
    };
  },
  values: ({ node }) => ({ excess: node.excess(CONTENDERS.ourStart, CONTENDERS.nodeStart) }),
  page: `
    ## Process start to the first tensor's first byte
    | program | wall time = elapsed | ratio = elapsed / ourStart.elapsed 1× |
    - programs of Node: medians of ${SHORT_ROUNDS}
    - {reasons}
    > process start to the first byte, above bare Node | at most 10 ms | $excess | bare Node = nodeStart.elapsed
    > import | at most 10 ms | import.elapsed
    > process start to the first byte: faster than Python with torch | at least 10 × | torchStart.elapsed / ourStart.elapsed`,
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

/** Files with many tensors, opened as the first file of a process, and their names listed. */
const headers = {
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
      const own = isShort ? many(SHORT_ROUNDS) : rounds;
      const others = count > LONG_ABOVE ? 1 : rounds;
      const roundsOf = ({ program, ours }) =>
        ours || (isShort && program === 'headers.mjs') ? own : others;
      const base = { contenders: OPENERS, rounds: roundsOf, compared: ['first'] };
      return [label, { ...base, path: paths[label], args: [`${isShort ? LATER_CALLS : 0}`] }];
    };
    return Object.fromEntries(Object.entries(RUNGS).map(leg));
  },
  figures: { later: ({ later }) => median(later) },
  rows: (read) => {
    const lines = Object.keys(RUNGS).flatMap((label) => [
      [label, ...OPENERS.map((one) => read(`${label}:first`, one).text)],
      [`${label}, later calls`, ...OPENERS.map((one) => read(`${label}:later`, one).text)],
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
    > open, 147 tensors, first of the process | at most ${isNode20 ? 1.5 : 1.2} ms | the model:open.first | JSON.parse + checks = the model:json.first & Python open = the model:pythonOpen.first
    > 1 000 tensors, open + keys() against JSON.parse + checks, names sorted | at most 1.15 × | 1 000:keys.first / 1 000:sortedJson.first
    > 10 000 tensors, open + keys() against JSON.parse + checks, names sorted | at most 1.15 × | 10 000:keys.first / 10 000:sortedJson.first
    > 100 000 tensors, open + keys() | at most 60 ms | 100 000:keys.first | JSON.parse + checks, names sorted = 100 000:sortedJson.first & Python open + keys() = 100 000:pythonKeys.first
    > 100 000 tensors, open: faster than JSON.parse + checks | at least 2.5 × | 100 000:json.first / 100 000:open.first
    > 100 000, indented tensors, open + keys() against JSON.parse + checks, names sorted | at most 1 × | 100 000, indented:keys.first / 100 000, indented:sortedJson.first
    > 100 000 tensors, open + keys(): faster than Python open + keys() | at least 2 × | 100 000:pythonKeys.first / 100 000:keys.first
    > 1 000 000 tensors, open | at most 1.5 s | 1 000 000:open.first
    > 1 000 000 tensors, open: faster than Python open | at least 3 × | 1 000 000:pythonOpen.first / 1 000 000:open.first`,
};

/** Calls in each process; the clock of one call is too coarse. */
const CALLS = 200_000;

/** Tensors that were asked for before. */
const names = {
  name: 'names',
  legs: ({ many, size }) => ({
    again: {
      contenders: pick('getBuilt getKept mapBuilt'),
      rounds: many(SHORT_ROUNDS),
      args: [`${size(CALLS, 2000)}`],
      compared: ['call'],
    },
  }),
  page: `
    ## A tensor again, by its name
    | call | time = call | ratio = call / mapBuilt.call 1× |
    - {reasons}
    > getTensor again, a name built for the call | at most 0.00034 ms | getBuilt.call | Map = mapBuilt.call`,
};

export const opening = [processStart, headers, names];
