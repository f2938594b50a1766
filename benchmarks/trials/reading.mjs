/** Reading every byte of the model, from the page cache and from the disk, and the memory that it takes. */
import { readMemory } from '../children/memory.mjs';
import { CONTENDERS, pick } from '../contenders.mjs';
import { min } from '../figures.mjs';
import { startChild } from '../processes.mjs';

/** Contenders that are trusted to have read the right bytes. */
const TRUSTED = pick('mapping ours');

/** How much one kind of memory grew while a file was opened and read. */
export const growthOf = (kind) => (line) =>
  line.before && line.after ? line.after[kind] - line.before[kind] : Number.NaN;
const KINDS = ['anonymous', 'fileBacked', 'proportional'];
const GROWTH = Object.fromEntries(KINDS.map((kind) => [kind, growthOf(kind)]));

/** The parts that trials of whole-model readers share, with the head of their page. */
export const readAll = (cache, contenders, roundsOf) => ({
  legs: (bench) => {
    const base = { contenders, cache, args: [bench.equipment.programs], trusted: TRUSTED };
    return { read: { ...base, rounds: roundsOf(bench), compared: ['exposed', 'everyByte'] } };
  },
  figures: GROWTH,
  values: (legs) => {
    const times = contenders.map((contender) => legs.read.median(contender, 'everyByte'));
    return { fastest: min(times.filter((time) => !Number.isNaN(time))) };
  },
});
export const READING_TABLE = `
    | reader | open = open | first tensor = firstTensor | all tensors = exposed | every byte = everyByte | min – max = span(everyByte) | of fastest = everyByte / $fastest × | RssAnon = anonymous +MB | RssFile = fileBacked +MB | Pss = proportional +MB |
    - {reasons}`;
const CHART = {
  series: ['open, all tensors', '… and every byte read'],
  bars: ['exposed', 'everyByte'],
  emphasis: CONTENDERS.ours.name,
  unit: 'ms',
};

/** Readers that are compared within hundredths take so many times the rounds. */
const CLOSE_FACTOR = 5;
export const closelyCompared =
  (readers) =>
  ({ rounds, many }) =>
  (contender) =>
    readers.includes(contender) ? many(CLOSE_FACTOR) * rounds : rounds;

const READERS = pick(
  'mapping ours prefetched loaded readFile mmapIo torchLoad torchMapped pickle numpy torch python',
);

/** Every byte read from the page cache, and the memory that it takes. */
const everyByte = {
  name: 'every-byte',
  ...readAll('warm', READERS, closelyCompared(pick('mapping ours python'))),
  chart: { file: 'every-byte.svg', title: 'A checkpoint in the page cache', ...CHART },
  page: `
    ## Every tensor exposed, then every byte read, warm${READING_TABLE}
    > every byte, warm, against Python's bare mmap and json | at most 1.02 × | ours.everyByte / python.everyByte
    > every byte, warm, against a plain mapping in C | at most 1.05 × | ours.everyByte / mapping.everyByte
    > every byte, warm: faster than fs.readFile | at least 8 × | readFile.everyByte / ours.everyByte
    > every byte, warm: faster than torch.load | at least 8 × | torchLoad.everyByte / ours.everyByte
    > every byte, warm: faster than pickle, protocol 5 | at least 8 × | pickle.everyByte / ours.everyByte
    > every byte, warm: private memory | at most 1 MB | ours.anonymous`,
};

/** One reader of each kind, since the disk decides. */
const COLD_READERS = pick(
  'mapping direct ours prefetched streamed reused loaded readFile torchLoad torchMapped numpy torch',
);
/** Fewer rounds do not show how much a disk's speed varies. */
const LEAST_COLD_ROUNDS = 5;

const cold = readAll('cold', COLD_READERS, ({ rounds, many }) =>
  Math.max(rounds, many(LEAST_COLD_ROUNDS)),
);

const everyByteCold = {
  name: 'cold',
  ...cold,
  values: (legs) => {
    const mine = legs.read.every(CONTENDERS.streamed, 'everyByte');
    /** The least lead over a rival, of all rounds. */
    const lead = (rival) =>
      min(legs.read.every(rival, 'everyByte').map((time, round) => time / mine[round]));
    const leads = { torchLead: lead(CONTENDERS.torch), numpyLead: lead(CONTENDERS.numpy) };
    return { ...cold.values(legs), ...leads };
  },
  chart: { file: 'cold.svg', title: 'A checkpoint on the disk', ...CHART },
  page: `
    ## Every tensor exposed, then every byte read, cold${READING_TABLE}
    - the reference is read one tensor at a time, in the order of the file
    > every byte, cold, stream({ reuse: true }), against O_DIRECT with 4 x 4 MiB at once | at most 1.1 × | reused.everyByte / direct.everyByte
    > every byte, cold, stream(): ahead of the reference with torch in every round | at least 1 × | $torchLead | ours = streamed.span(everyByte) & theirs = torch.span(everyByte)
    > every byte, cold, stream(): ahead of the reference with numpy in every round | at least 1 × | $numpyLead | ours = streamed.span(everyByte) & theirs = numpy.span(everyByte)
    > every byte, cold, prefetch(): faster than the reference with torch | at least 1.5 × | torch.everyByte / prefetched.everyByte
    > every byte, cold, prefetch(): faster than the reference with numpy | at least 1.5 × | numpy.everyByte / prefetched.everyByte
    > cold, all tensors: faster than the reference with torch | at least 50 × | torch.exposed / ours.exposed`,
};

const PROCESSES = 4;
const MEMORY_READERS = pick('mapping ours readFile torchLoad torchMapped pickle numpy torch');

/** Memory that the tensors add to `count` processes together, in bytes. */
async function holdIn(count, command, signal) {
  const starts = Array.from({ length: count }, () => startChild(command, signal));
  const settled = await Promise.allSettled(starts);
  const children = settled.flatMap(({ value }) => value ?? []);
  try {
    // Fails when one of the processes failed.
    await Promise.all(starts);
    const lines = children.map(({ pid, line }) => ({
      before: line().before,
      after: readMemory(pid),
    }));
    const sum = (grown) => lines.reduce((total, line) => total + grown(line), 0);
    return Object.fromEntries(KINDS.map((kind) => [kind, sum(GROWTH[kind])]));
  } finally {
    await Promise.all(children.map((child) => child.end()));
  }
}

/** Memory of one process that holds all tensors with every byte read, and of four at once. */
const memory = {
  name: 'memory',
  legs: ({ equipment, signal }) => {
    const base = { contenders: MEMORY_READERS, args: [equipment.programs], compared: [] };
    const run = (count) => (command) => holdIn(count, command, signal);
    const leg = { ...base, cache: 'warm', rounds: 1 };
    return { alone: { ...leg, run: run(1) }, together: { ...leg, run: run(PROCESSES) } };
  },
  chart: {
    file: 'memory.svg',
    title: 'Private memory (RssAnon) for a checkpoint',
    series: ['one process', 'four processes'],
    bars: ['alone:anonymous', 'together:anonymous'],
    emphasis: CONTENDERS.ours.name,
    unit: 'MB',
  },
  page: `
    ## Memory with every byte read and held, one process and ${PROCESSES} at once
    | reader | RssAnon = alone:anonymous MB | RssFile = alone:fileBacked MB | Pss = alone:proportional MB | 4: RssAnon = together:anonymous MB | 4: RssFile = together:fileBacked MB | 4: Pss = together:proportional MB |
    - {reasons}
    > private memory with every byte read | at most 1 MB | alone:ours.anonymous | Python with torch = alone:torch.anonymous MB & fs.readFile = alone:readFile.anonymous MB
    > private memory of 4 processes together | at most 2 MB | together:ours.anonymous | Python with torch = together:torch.anonymous MB & fs.readFile = together:readFile.anonymous MB`,
};

export const reading = [everyByte, everyByteCold, memory];
