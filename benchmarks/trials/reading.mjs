/** Reading the model: every byte of it, from the page cache and from the disk, one tensor, and what it costs in memory. */
import { readMemory } from '../children/memory.mjs';
import * as all from '../contenders.mjs';
import { formatByteSize, formatDuration, formatGrowth, formatRatio } from '../figures.mjs';
import { Measured, tableOf } from '../measure.mjs';
import { startChild } from '../processes.mjs';
import { selectAll, selectMiddle } from '../selection.mjs';
import { targetsOf } from '../targets.mjs';

const { OURS, PLAIN_MAPPING, PYTHON_MAPPING, READ_FILE, SAFE_OPEN_NUMPY, SAFE_OPEN_TORCH } = all;

/** What is trusted to have read the right bytes. */
export const TRUSTED = [PLAIN_MAPPING, OURS];

/** How much one kind of memory grew while a file was opened and read. */
export const growthOf = (kind) => (line) =>
  line.before && line.after ? line.after[kind] - line.before[kind] : Number.NaN;

/** The fastest and the slowest round. */
function spanOf(rounds) {
  if (rounds.length === 0) return '–';
  return [Math.min(...rounds), Math.max(...rounds)].map(formatDuration).join(' – ');
}

const TIMES = {
  open: 'open',
  'first tensor': 'firstTensor',
  'all handed out': 'handedOut',
  'every byte': 'everyByte',
};
const KINDS = { RssAnon: 'anonymous', RssFile: 'fileBacked', Pss: 'proportional' };
const HEAD = [
  'reader',
  ...Object.keys(TIMES),
  'min – max',
  'of fastest',
  ...Object.keys(KINDS),
].join(' | ');

/** A trial of readers of the whole model, and the chart of it. */
function readAll({ name, cache, rounds, readers, chart, targets }) {
  return {
    name,
    legs: (bench) => {
      const args = [bench.equipment.programs, ...selectAll(bench.path)];
      const leg = { contenders: readers, cache, rounds: rounds(bench), args, trusted: TRUSTED };
      return { [cache]: { ...leg, figures: ['handedOut', 'everyByte'] } };
    },
    report: ({ [cache]: measured }) => {
      const time = (contender, figure = 'everyByte') => measured.median(contender, figure);
      const read = readers.filter((contender) => measured.lines(contender).length > 0);
      const fastest = Math.min(...read.map((contender) => time(contender)));
      return {
        title: `Every tensor handed out, then every byte read, ${cache}`,
        rows: tableOf(
          HEAD,
          readers,
          ...Object.values(TIMES).map((figure) => measured.show(figure)),
          (contender) => spanOf(measured.every(contender, 'everyByte')),
          (contender) => formatRatio(time(contender) / fastest),
          ...Object.values(KINDS).map((kind) => measured.show(growthOf(kind), formatGrowth)),
        ),
        notes: measured.reasons,
        targets: targets(time, (contender) => measured.every(contender, 'everyByte')),
        chart: {
          ...chart,
          series: ['open, all handed out', '… and every byte read'],
          bars: new Map(read.map((one) => [one.name, [time(one, 'handedOut'), time(one)]])),
          emphasis: OURS.name,
          format: formatDuration,
        },
      };
    },
  };
}

/** Readers that are compared within hundredths, which takes so many times the rounds. */
const CLOSE_READERS = [PLAIN_MAPPING, OURS, PYTHON_MAPPING];
const CLOSE_FACTOR = 5;

/** Every byte read from the page cache, and what that costs in memory. */
export const everyByte = readAll({
  name: 'every-byte',
  cache: 'warm',
  rounds: (bench) => (contender) =>
    (CLOSE_READERS.includes(contender) ? CLOSE_FACTOR : 1) * bench.rounds,
  readers: [
    ...[
      PLAIN_MAPPING,
      all.READ,
      OURS,
      all.OURS_PREFETCHED,
      all.OURS_LOADED,
      READ_FILE,
      all.MMAP_IO,
    ],
    ...[
      all.TORCH_LOAD,
      all.TORCH_MAPPED,
      all.PICKLE,
      SAFE_OPEN_NUMPY,
      SAFE_OPEN_TORCH,
      PYTHON_MAPPING,
    ],
  ],
  chart: { file: 'every-byte.svg', title: 'A checkpoint in the page cache' },
  targets: (time) => {
    const rivals = [PYTHON_MAPPING, PLAIN_MAPPING, READ_FILE, all.TORCH_LOAD, all.PICKLE];
    const [python, plain, readFile, load, pickle] = rivals.map((contender) => time(contender));
    const memory = time(OURS, growthOf('anonymous'));
    return targetsOf(
      { ours: time(OURS), python, plain, readFile, load, pickle, memory },
      `
      every byte, warm, against Python's bare mmap and json | at most 1.02 × | ours / python
      every byte, warm, against a plain mapping in C | at most 1.05 × | ours / plain
      every byte, warm: faster than fs.readFile | at least 8 × | readFile / ours
      every byte, warm: faster than torch.load | at least 8 × | load / ours
      every byte, warm: faster than pickle, protocol 5 | at least 8 × | pickle / ours
      every byte, warm: private memory | at most 1 MB | memory`,
    );
  },
});

/** Fewer rounds do not show how much a disk's speed varies. */
const LEAST_COLD_ROUNDS = 5;

/** The same from the disk: one reader of each kind, since the disk decides. */
export const everyByteCold = readAll({
  name: 'cold',
  cache: 'cold',
  rounds: ({ rounds, many }) => Math.max(rounds, many(LEAST_COLD_ROUNDS)),
  readers: [
    ...[all.DIRECT, all.DIRECT_BLOCK, PLAIN_MAPPING, OURS, all.OURS_PREFETCHED, all.OURS_STREAMED],
    ...[
      all.OURS_LOADED,
      READ_FILE,
      all.TORCH_LOAD,
      all.TORCH_MAPPED,
      SAFE_OPEN_NUMPY,
      SAFE_OPEN_TORCH,
    ],
  ],
  chart: { file: 'cold.svg', title: 'A checkpoint on the disk' },
  targets: (time, roundsOf) => {
    const rounds = [all.OURS_STREAMED, SAFE_OPEN_TORCH, SAFE_OPEN_NUMPY].map(roundsOf);
    const [span, torchSpan, numpySpan] = rounds.map(spanOf);
    /** The least lead over a rival, of all rounds. */
    const [, torchLead, numpyLead] = rounds.map((theirs) => {
      const leads = theirs.map((elapsed, round) => elapsed / rounds[0][round]);
      return leads.length === 0 ? Number.NaN : Math.min(...leads);
    });
    const values = {
      direct: Math.min(time(all.DIRECT), time(all.DIRECT_BLOCK)),
      streamed: time(all.OURS_STREAMED),
      prefetched: time(all.OURS_PREFETCHED),
      torch: time(SAFE_OPEN_TORCH),
      numpy: time(SAFE_OPEN_NUMPY),
      handedOut: time(OURS, 'handedOut'),
      torchHandedOut: time(SAFE_OPEN_TORCH, 'handedOut'),
      ...{ span, torchSpan, numpySpan, torchLead, numpyLead },
    };
    return targetsOf(
      values,
      `
      every byte, cold, stream(): the speed against the faster O_DIRECT | at least 0.85 × | direct / streamed | ours = streamed & O_DIRECT = direct
      every byte, cold, stream(): ahead of the reference with torch in every round | at least 1 × | torchLead | ours = span & theirs = torchSpan
      every byte, cold, stream(): ahead of the reference with numpy in every round | at least 1 × | numpyLead | ours = span & theirs = numpySpan
      every byte, cold, prefetch(): faster than the reference with torch | at least 1.5 × | torch / prefetched
      every byte, cold, prefetch(): faster than the reference with numpy | at least 1.5 × | numpy / prefetched
      cold, all handed out: faster than the reference with torch | at least 50 × | torchHandedOut / handedOut`,
    );
  },
});

/**
 * Readers of one tensor. Those that read the whole file first, `load()`, torch.load and pickle, take as
 * long as for all tensors; `fs.readFile` stands for them.
 */
const ONE_TENSOR_READERS = [
  PLAIN_MAPPING,
  OURS,
  READ_FILE,
  all.TORCH_MAPPED,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
];

/** The file opened for one tensor in its middle, of which every byte is read. */
export const oneTensor = {
  name: 'one-tensor',
  legs: ({ equipment, path, rounds }) => {
    const args = [equipment.programs, ...selectMiddle(path)];
    const leg = {
      contenders: ONE_TENSOR_READERS,
      rounds,
      args,
      trusted: TRUSTED,
      figures: ['everyByte'],
    };
    return { warm: { ...leg, cache: 'warm' }, cold: { ...leg, cache: 'cold' } };
  },
  report: (legs, { path }) => {
    const columns = ['warm', 'cold'].flatMap((name) => {
      const ours = legs[name].median(OURS, 'everyByte');
      const ratio = ({ everyByte }) => everyByte / ours;
      return [legs[name].show('everyByte'), legs[name].show(ratio, formatRatio)];
    });
    return {
      title: `One tensor of ${formatByteSize(Number(selectMiddle(path)[2]))} in the middle: opened and every byte of it read`,
      rows: tableOf('reader | warm | of ours | cold | of ours', ONE_TENSOR_READERS, ...columns),
      notes: [...new Set(Measured.of(legs.warm, legs.cold).reasons)],
      targets: [],
    };
  },
};

const PROCESSES = 4;
const MEMORY_READERS = [
  ...[PLAIN_MAPPING, OURS, READ_FILE, all.TORCH_LOAD, all.TORCH_MAPPED, all.PICKLE],
  ...[SAFE_OPEN_NUMPY, SAFE_OPEN_TORCH],
];

/** What the tensors add to the memory of `count` processes together, in bytes. */
async function holdIn(count, command, signal) {
  const starts = Array.from({ length: count }, () => startChild(command, signal));
  const settled = await Promise.allSettled(starts);
  const children = settled.flatMap(({ value }) => value ?? []);
  try {
    // Fails when one of them has failed.
    await Promise.all(starts);
    const now = children.map(({ pid }) => readMemory(pid));
    const sum = (kind) =>
      children.reduce((total, child, i) => total + now[i]?.[kind] - child.line().before?.[kind], 0);
    return Object.fromEntries(Object.values(KINDS).map((kind) => [kind, sum(kind)]));
  } finally {
    await Promise.all(children.map((child) => child.end()));
  }
}

/** Memory of one process that holds all tensors with every byte read, and of four at once. */
export const memory = {
  name: 'memory',
  legs: ({ equipment, path, signal }) => {
    const args = [equipment.programs, ...selectAll(path)];
    const hold = (count) => {
      const run = (command) => holdIn(count, command, signal);
      return { contenders: MEMORY_READERS, args, cache: 'warm', rounds: 1, run, figures: [] };
    };
    return { alone: hold(1), together: hold(PROCESSES) };
  },
  report: ({ alone, together }) => {
    const figures = [alone, together].flatMap((leg) =>
      Object.values(KINDS).map((kind) => leg.show(kind, formatByteSize)),
    );
    const head = [
      'reader',
      ...Object.keys(KINDS),
      ...Object.keys(KINDS).map((kind) => `${PROCESSES}: ${kind}`),
    ];
    const [ours, torch, file, ours4, torch4, file4] = [alone, together].flatMap((leg) =>
      [OURS, SAFE_OPEN_TORCH, READ_FILE].map((contender) => leg.median(contender, 'anonymous')),
    );
    const read = MEMORY_READERS.filter((contender) => together.lines(contender).length > 0);
    const bars = read.map((contender) => [
      contender.name,
      [alone, together].map((leg) => Math.max(0, leg.median(contender, 'anonymous'))),
    ]);
    return {
      title: `Memory with every byte read and held, one process and ${PROCESSES} at once`,
      rows: tableOf(head.join(' | '), MEMORY_READERS, ...figures),
      notes: together.reasons,
      targets: targetsOf(
        { ours, torch, file, ours4, torch4, file4 },
        `
        private memory with every byte read | at most 1 MB | ours | Python with torch = torch & fs.readFile = file (MB)
        private memory of ${PROCESSES} processes together | at most 2 MB | ours4 | Python with torch = torch4 & fs.readFile = file4 (MB)`,
      ),
      chart: {
        file: 'memory.svg',
        title: 'Private memory (RssAnon) for a checkpoint',
        series: ['one process', 'four processes'],
        bars: new Map(bars),
        emphasis: OURS.name,
        format: formatByteSize,
      },
    };
  },
};
