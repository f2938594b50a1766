/** Processes up to a first byte, opening files, handing out tensors: what costs before a byte is read. */
import { join } from 'node:path';
import * as all from '../contenders.mjs';
import { formatByteSize, formatCount, median } from '../figures.mjs';
import { Measured, tableOf } from '../measure.mjs';
import { manySmallTensors, tensor, writeSparseModel } from '../models.mjs';
import { timeProcess } from '../processes.mjs';
import { selectAll } from '../selection.mjs';
import { ofNode, targetsOf } from '../targets.mjs';

const { contender, NODE_START, NUMPY, OURS, OUR_IMPORT, OUR_START, ours, PYTHON_MAPPING } = all;

/** Short measurements are noisy, and so are the differences between them. */
const SHORT_ROUNDS = 40;

/** From starting a process until it has printed the first byte of the first tensor. */
export const processStart = {
  name: 'process-start',
  legs: ({ signal, rounds, many }) => {
    const node = [NODE_START, OUR_START];
    const run = async (command) => ({ elapsed: (await timeProcess(command, signal)).firstLine });
    return {
      // Brings the programs themselves into the page cache; not counted.
      before: { contenders: [...node, ...all.PYTHON_STARTERS], rounds: 1, run, figures: [] },
      node: { contenders: node, rounds: many(SHORT_ROUNDS), run },
      import: { contenders: [OUR_IMPORT], rounds: many(SHORT_ROUNDS) },
      python: { contenders: all.PYTHON_STARTERS, rounds, run },
    };
  },
  report: (legs) => {
    const measured = Measured.of(legs.node, legs.import, legs.python);
    const time = (contender) => measured.median(contender, 'elapsed');
    const contenders = measured.rows.map(({ contender }) => contender);
    const bare = legs.node.every(NODE_START, 'elapsed');
    const values = {
      excess: median(legs.node.every(OUR_START, 'elapsed').map((elapsed, i) => elapsed - bare[i])),
      alone: time(NODE_START),
      import: time(OUR_IMPORT),
      ours: time(OUR_START),
      torch: time(all.TORCH_START),
    };
    const ratio = (contender) =>
      `${(time(contender) / values.ours).toFixed(1)} ×`.replace(/NaN.*/, '–');
    return {
      title: "Process start to the first tensor's first byte",
      rows: tableOf('program | wall time | ratio', contenders, measured.show('elapsed'), ratio),
      notes: [`programs of Node: medians of ${SHORT_ROUNDS}`, ...measured.reasons],
      targets: targetsOf(
        values,
        `
        process start to the first byte, above Node alone | at most 12 ms | excess | Node alone = alone
        import | at most 10 ms | import
        process start to the first byte: faster than Python with torch | at least 10 × | torch / ours`,
      ),
    };
  },
};

const OUR_CALLS = ours('safetensors-mmap', 'calls.mjs', '-');
const TORCH_CALLS = contender('Python safe_open, torch', 'calls.py', '-', all.TORCH);
const CALLS = [OUR_CALLS, TORCH_CALLS];
/** Passes through all tensors before the calls that count, and passes that count. */
const PASSES = 500;

/** Calls on the open model: its buffers for the first time, and a tensor once more. */
export const calls = {
  name: 'calls',
  legs: ({ rounds, many }) => {
    const roundsOf = (contender) => (contender.ours ? many(SHORT_ROUNDS) : rounds);
    const figures = ['first', 'all', 'again'];
    return { calls: { contenders: CALLS, rounds: roundsOf, args: [`${PASSES}`], figures } };
  },
  report: ({ calls }) => {
    const [first, all, again] = ['first', 'all', 'again'].map((figure) =>
      calls.median(OUR_CALLS, figure),
    );
    const [torchFirst, torchAll, torchAgain] = ['first', 'all', 'again'].map((figure) =>
      calls.median(TORCH_CALLS, figure),
    );
    const head = 'reader | first tensor with its memory | all 147 | getTensor again';
    return {
      title: 'Calls on the open model, in a fresh process',
      rows: tableOf(head, CALLS, calls.show('first'), calls.show('all'), calls.show('again')),
      notes: [
        ...calls.reasons,
        `this package: medians of ${SHORT_ROUNDS}`,
        `again: ${PASSES} passes through the names, after as many that do not count; this package gives the same tensor, Python a new one`,
      ],
      targets: targetsOf(
        { first, all, again, torchFirst, torchAll, torchAgain },
        `
        first buffer of a process | at most 0.7 ms | first | Python with torch = torchFirst
        all 147 buffers | at most 2 ms | all | Python with torch = torchAll
        getTensor again | at most 0.0004 ms | again | Python with torch = torchAgain`,
      ),
    };
  },
};

const DEFAULT = ours('safetensors-mmap', 'buffers.mjs', 'default');
const COUNTED = contender('the same, counted by V8', 'buffers.mjs', 'counted');
/** A model of 120 GB in tensors of 134 MB, and about 230 MB of objects. */
const LARGE_TENSORS = 894;
const LARGE_TENSOR_BYTES = 2 ** 27;
const LIVE_OBJECTS = 2_000_000;

/** Buffers over the tensors of a large model, beside live objects: what the garbage collector makes of them. */
export const buffers = {
  name: 'buffers',
  prepare: async ({ folder, size }) => {
    const path = join(folder, 'large.safetensors');
    const count = size(LARGE_TENSORS, 10);
    const names = Array.from({ length: count }, (_, i) => `layer.${i}`);
    await writeSparseModel(
      path,
      names.map((name) => tensor(name, 'U8', LARGE_TENSOR_BYTES)),
    );
    return { path, count };
  },
  legs: ({ rounds, size }, { path }) => {
    // Half a minute each when they are counted: once is enough.
    const roundsOf = (contender) => (contender === COUNTED ? 1 : rounds);
    const args = [`${size(LIVE_OBJECTS, 10_000)}`];
    const leg = { contenders: [DEFAULT, COUNTED], rounds: roundsOf, path, args };
    return { buffers: { ...leg, figures: ['first', 'all'] } };
  },
  report: ({ buffers }, _, { count }) => {
    const figure = (contender, name) => buffers.median(contender, name);
    const reason = buffers.lines(DEFAULT)[0]?.counted;
    const collections = buffers.show('collections', formatCount);
    const values = {
      first: figure(DEFAULT, 'first'),
      all: figure(DEFAULT, 'all'),
      allCounted: figure(COUNTED, 'all'),
      full: figure(DEFAULT, 'collections'),
      fullCounted: figure(COUNTED, 'collections'),
    };
    return {
      title: `${count} buffers of 134 MB beside ${formatByteSize(figure(DEFAULT, 'liveBytes'))} of live objects`,
      rows: tableOf(
        'how | first buffer | all | full collections',
        [DEFAULT, COUNTED],
        buffers.show('first'),
        buffers.show('all'),
        collections,
      ),
      notes: [
        ...buffers.reasons,
        'a sparse file, of which no byte is read; counted: one process',
        ...(reason ? [`V8 counts the buffers of this package here, because ${reason}`] : []),
      ],
      targets: targetsOf(
        values,
        `
        the first of 894 buffers of 134 MB | at most 0.7 ms | first
        894 buffers of 134 MB beside 200 MB of live objects | at most 25 ms | all | counted = allCounted
        894 buffers of 134 MB, full collections | at most 0 | full | counted = fullCounted ()`,
      ),
    };
  },
};

const OPEN = ours('open', 'headers.mjs', 'open');
const KEYS = ours('open + keys()', 'headers.mjs', 'keys');
const JSON_PARSE = contender('JSON.parse + checks', 'headers.mjs', 'json');
const JSON_KEYS = contender('JSON.parse + checks, names sorted', 'headers.mjs', 'json-keys');
const REFERENCE = contender('Python open', 'open_header.py', 'open', NUMPY);
const REFERENCE_KEYS = contender('Python open + keys()', 'open_header.py', 'keys', NUMPY);
const OPENERS = [OPEN, KEYS, JSON_PARSE, JSON_KEYS, REFERENCE, REFERENCE_KEYS];

/** Files up to so many tensors take milliseconds: more rounds in JavaScript, and calls after the first one. */
const SHORT_UP_TO = 10_000;
const LATER_CALLS = 20;
/** Rivals take half a minute for a file of more. */
const LONG_ABOVE = 100_000;

/** What the first open of the model may take: Node 20 is slower to load the addon. */
const FIRST_OPEN_MS = ofNode(process.versions.node, { 20: 1.5, 22: 1.2, 24: 1.2 });

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
      const roundsOf = (contender) => {
        if (isShort && contender.program === 'headers.mjs') return many(SHORT_ROUNDS);
        return count > LONG_ABOVE && !contender.ours ? 1 : rounds;
      };
      const args = [String(isShort ? LATER_CALLS : 0)];
      const path = paths[label];
      return [label, { contenders: OPENERS, rounds: roundsOf, path, args, figures: ['first'] }];
    };
    return Object.fromEntries(Object.entries(RUNGS).map(leg));
  },
  report: (rungs) => {
    const values = {};
    for (const [label, rung] of Object.entries(rungs)) {
      for (const one of OPENERS) values[`${label}: ${one.name}`] = rung.median(one, 'first');
    }
    const later = ({ later }) => median(later);
    const lines = Object.entries(rungs).flatMap(([label, rung]) => [
      [label, ...OPENERS.map(rung.show('first'))],
      [`${label}, later calls`, ...OPENERS.map(rung.show(later))],
    ]);
    const [parse, sorted, keys] = [JSON_PARSE.name, JSON_KEYS.name, KEYS.name];
    const ratio = (label, limit) =>
      `${label} tensors, ${keys} against ${sorted} | at most ${limit} × | ${label}: ${keys} / ${label}: ${sorted}`;
    const gain = (label, mine, theirs, limit) =>
      `${label} tensors, ${mine}: faster than ${theirs} | at least ${limit} × | ${label}: ${theirs} / ${label}: ${mine}`;
    return {
      title: 'Headers of many tensors, opened in a fresh process',
      rows: [
        ['tensors', ...OPENERS.map(({ name }) => name)],
        ...lines.filter(([, ...figures]) => figures.some((figure) => figure !== '–')),
      ],
      notes: [
        ...new Set(Object.values(rungs).flatMap(({ reasons }) => reasons)),
        `JavaScript up to ${SHORT_UP_TO} tensors: medians of ${SHORT_ROUNDS}; rivals above ${LONG_ABOVE}: one process`,
        `the first call of a process, then medians of ${LATER_CALLS} later calls of the same process, for every reader`,
        'the first open of a process also loads the addon, which JSON.parse has no use for',
        'JavaScript: young garbage of the imports is collected before the first call',
        'JSON.parse + checks does not notice a name that comes twice',
      ],
      targets: targetsOf(
        values,
        `
        open, 147 tensors, first of the process | at most ${FIRST_OPEN_MS} ms | the model: open | ${parse} = the model: ${parse} & Python open = the model: Python open
        ${ratio('1 000', 1.15)}
        ${ratio('10 000', 1.15)}
        100 000 tensors, ${keys} | at most 60 ms | 100 000: ${keys} | ${sorted} = 100 000: ${sorted} & Python ${keys} = 100 000: Python ${keys}
        ${gain('100 000', 'open', parse, 2.5)}
        ${ratio('100 000, indented', 1)}
        ${gain('100 000', keys, `Python ${keys}`, 2)}
        1 000 000 tensors, open | at most 1.5 s | 1 000 000: open
        ${gain('1 000 000', 'open', 'Python open', 3)}`,
      ),
    };
  },
};

const MANY_TENSORS = 100_000;
const HANDING_OUT = [OURS, PYTHON_MAPPING];
/** What is collected meanwhile makes rounds differ: so many times as many. */
const ROUNDS_FACTOR = 5;
const MANY_MS = ofNode(process.versions.node, { 20: 450, 22: 400, 24: 350 });

/** A file of very many tensors: opened, and the memory of each handed out. */
export const manyBuffers = {
  name: 'many-buffers',
  prepare: async ({ folder, size }) => {
    const path = join(folder, 'many-buffers.safetensors');
    const count = size(MANY_TENSORS, 1000);
    await writeSparseModel(path, manySmallTensors(count));
    return { path, count };
  },
  legs: ({ equipment, rounds }, { path }) => {
    const args = [equipment.programs, ...selectAll(path)];
    const leg = {
      contenders: HANDING_OUT,
      rounds: ROUNDS_FACTOR * rounds,
      path,
      args,
      trusted: [OURS],
    };
    return { many: { ...leg, figures: ['open', 'handedOut'] } };
  },
  report: ({ many }, { rounds }, { count }) => {
    const [ours, python] = HANDING_OUT.map((contender) => many.median(contender, 'handedOut'));
    return {
      title: `${count} tensors of 512 bytes, opened and handed out`,
      rows: tableOf(
        'reader | open | all handed out',
        HANDING_OUT,
        many.show('open'),
        many.show('handedOut'),
      ),
      notes: [
        ...many.reasons,
        `medians of ${ROUNDS_FACTOR * rounds}; every tensor of this package is an ArrayBuffer of its own, Python's are views of one mapping`,
      ],
      targets: targetsOf(
        { ours, python },
        `
        100 000 buffers, opening included | at most ${MANY_MS} ms | ours | ${PYTHON_MAPPING.name} = python`,
      ),
    };
  },
};
