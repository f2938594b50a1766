/**
 * Mutation testing of one directory of `src` with its own tests, in one process. Inserts faults one at a time, and runs
 * those tests of the directory that reach them. A fault that no test notices is a survivor: a test is missing, the
 * fault is equivalent (list it in equivalents.json, with the reason), or the code is not needed. `--file` limits the
 * faults to one file. Tests that take more than a second, and code in child processes, notice nothing here.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import process from 'node:process';
import { createVitest } from 'vitest/node';
import { build } from '../../scripts/build.mjs';
import { Random } from '../soak/random.mjs';
import { readOptions, refuse } from '../support/options.mjs';
import { coverageOf, isUsable, planOf } from './coverage.mjs';
import { directories, ROOT, sourcesOf, testsOf } from './directories.mjs';
import { guard } from './guard.mjs';
import { isKnown, mutantsOf, withSwitches } from './mutants.mjs';

/**
 * A process that writes nothing for this long is killed: it is loading all tests of a directory, or running those of
 * one mutant.
 */
const PATIENCE_MS = 120_000;

const USAGE = `mutate DIRECTORY [--file NAME] [--count N] [--seed S]
  DIRECTORY    ${directories().join(', ')}
  --file NAME  insert faults only into NAME.ts
  --count N    number of faults (default: 500; all of header)
  --seed S     choose other faults (default: 1)
Half an hour to a few hours. survivors.md has the list; after Ctrl-C, of the faults that have run.

mutate --all --help shows how to test all directories with a whole test suite.`;

const PROGRESS_MS = 30_000;

const { values, positionals } = readOptions('mutate', USAGE, {
  file: { type: 'string' },
  count: { type: 'string', number: 'whole', least: 1 },
  seed: { type: 'string', number: 'whole', default: '1' },
});
const [directory] = positionals;
if (positionals.length !== 1 || !directories().includes(directory)) {
  refuse('mutate', `DIRECTORY must be one of ${directories().join(', ')}`);
}
const sources = sourcesOf(directory).filter(
  (path) => values.file === undefined || basename(path, '.ts') === values.file,
);
const name = values.file === undefined ? directory : `${directory}/${values.file}`;
if (sources.length === 0) refuse('mutate', `${directory} has no file ${values.file}.ts`);
const tests = testsOf(directory);
const equivalents = JSON.parse(readFileSync(new URL('equivalents.json', import.meta.url)));

function chosenMutants() {
  const all = sources
    .flatMap((path) => mutantsOf(path, readFileSync(join(ROOT, path), 'utf8')))
    .filter((mutant) => !isKnown(equivalents, mutant));
  const random = new Random(values.seed);
  const count = values.count ?? (directory === 'header' ? all.length : 500);
  const order = all.map((mutant) => [random.unit(), mutant]).sort(([a], [b]) => a - b);
  const chosen = order.slice(0, count).map(([, mutant], id) => ({ ...mutant, id }));
  console.log(`${name}: ${chosen.length} of ${all.length} faults, seed ${values.seed}`);
  return chosen;
}

await build();
const started = Date.now();
const mutants = chosenMutants();
const scratch = mkdtempSync(join(tmpdir(), 'safetensors-mutants-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    takeResults(written().slice(1));
    report('interrupted');
    process.exit(1);
  });
}
process.env.MUTATION_JOB = join(scratch, 'job.json');
process.env.TMPDIR = join(scratch, 'temporary');
mkdirSync(process.env.TMPDIR);
const log = join(scratch, 'log');

const switches = {
  name: 'switches',
  enforce: 'pre',
  transform: (code, id) => {
    const own = mutants.filter(({ path }) => id === join(ROOT, path));
    return own.length === 0 ? undefined : { code: withSwitches(code, own), map: null };
  },
};
const vitest = await createVitest(
  'test',
  {
    root: ROOT,
    // Independent of the projects of the test suite.
    config: false,
    pool: 'forks',
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/python-server.ts'],
    setupFiles: ['test/support/equal-arrays.ts'],
    watch: false,
    isolate: false,
    maxWorkers: 1,
    reporters: [{}],
    runner: join(ROOT, 'test/mutation/run-mutants.mjs'),
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // Servers that tests have left open are ended with their process.
    teardownTimeout: 1000,
    execArgv: ['--max-old-space-size=2048'],
    onConsoleLog: () => false,
  },
  { plugins: [switches] },
);
const specifications = await vitest.globTestSpecifications(tests);

function written() {
  if (!existsSync(log)) return [];
  return readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line));
}

/** Runs a job in a separate process, and ends that when it writes nothing for a while. */
async function session(paths, job = {}) {
  const chosen = specifications.filter(({ moduleId }) => paths.includes(moduleId));
  const size = { files: chosen.length, mutantCount: mutants.length, log };
  writeFileSync(process.env.MUTATION_JOB, JSON.stringify({ ...job, ...size }));
  writeFileSync(log, '');
  let seen = -1;
  let since;
  const stop = guard(
    () => written()[0]?.pid,
    () => {
      const { size: length } = statSync(log);
      if (length !== seen) [seen, since] = [length, Date.now()];
      return Date.now() - since > PATIENCE_MS;
    },
  );
  vitest.state.filesMap.clear();
  vitest.state.errorsSet.clear();
  await vitest.runTestSpecifications(chosen);
  return { ended: stop() ?? 'a crash', entries: written().slice(1) };
}

/** Mutants that no test reaches. */
const unreached = new Set();

/** The test that noticed a mutant, or the reason why its process ended; undefined for a survivor. */
const verdicts = new Map();

/** Mutants that share one process, and those among them that are also run alone. */
const rest = [];
const unclear = [];

/** Takes the results of the process that ran them, in their order. Returns their number. */
function takeResults(entries) {
  const results = entries.filter(({ isClean }) => isClean !== undefined);
  for (const { failed, isClean } of rest.length === 0 ? [] : results) {
    const plan = rest.shift();
    if (!isClean || (failed === undefined && plan.alone !== undefined)) unclear.push(plan);
    else verdicts.set(plan.id, failed);
  }
  return results.length;
}

async function runTogether(plans) {
  rest.push(...plans);
  const paths = new Set(rest.flatMap(({ rounds }) => rounds.map(({ path }) => path)));
  while (rest.length > 0) {
    const { entries, ended } = await session([...paths], { mutants: rest });
    const began = entries.filter((entry) => entry.began === true);
    if (began.length === 0) throw new Error(`no tests could be run: ${ended}`);
    if (began.length > takeResults(entries)) verdicts.set(rest.shift().id, ended);
    console.log(
      `${plans.length - rest.length} of ${plans.length} have run, ${unclear.length} to be run alone`,
    );
  }
}

async function runAlone({ id, limit, rounds, alone = rounds }) {
  const paths = alone.map(({ path }) => path);
  const { entries, ended } = await session(paths, {
    mutants: [{ id, limit, rounds: alone }],
    alone: id,
  });
  const result = entries.find(({ isClean }) => isClean !== undefined);
  verdicts.set(id, result === undefined ? ended : result.failed);
}

function partition(list, isFirst) {
  return [list.filter(isFirst), list.filter((item) => !isFirst(item))];
}

/** Writes the list of survivors, of those faults that have run. */
function report(how) {
  const noticed = {};
  for (const failed of verdicts.values()) {
    const kind = failed?.startsWith('test/') ? 'a test' : failed;
    if (kind !== undefined) noticed[kind] = (noticed[kind] ?? 0) + 1;
  }
  const judged = mutants.filter(({ id }) => verdicts.has(id) || unreached.has(id));
  const survivors = judged
    .filter(({ id }) => verdicts.get(id) === undefined)
    .sort((a, b) => a.path.localeCompare(b.path) || a.start - b.start);
  const list = survivors.map(({ id, path, line, place, lineText, fault }) => {
    const why = unreached.has(id) ? ' (no test comes here)' : '';
    return `- [ ] \`${path}:${line}\`, ${place || 'outside of functions'}: \`${fault}\` in \`${lineText}\`${why}`;
  });
  const minutes = ((Date.now() - started) / 60_000).toFixed(1);
  const count = `${survivors.length} of ${judged.length} survived`;
  const lacking =
    judged.length < mutants.length ? `, ${mutants.length - judged.length} not run` : '';
  const summary = `${count}${lacking}, noticed: ${JSON.stringify(noticed)}, ${minutes} minutes`;
  writeFileSync(
    'survivors.md',
    `# Survivors of ${name}, seed ${values.seed}, ${how}\n\n${summary}\n\n${list.join('\n')}\n`,
  );
  console.log(`${how}: ${summary}; survivors.md has the list`);
}

const everything = await session(specifications.map(({ moduleId }) => moduleId));
const coverage = coverageOf(everything.entries);
if (coverage.length < specifications.length) {
  throw new Error(`without a fault, the tests do not end: ${everything.ended}`);
}
const leftOut = coverage
  .flatMap((file) => file.tests)
  .filter((each) => !isUsable(each) && each.state !== 'skip');
console.log(`${leftOut.length} tests are left out, since they are slow or fail beside others`);
for (const { path, name, state, ms } of leftOut) {
  console.log(`  ${relative(ROOT, path)}: ${name}: ${state}, ${Math.round(ms)} ms`);
}
const plans = mutants.map(({ id, path }) => {
  const siblings = mutants.filter((other) => other.path === path).map((other) => other.id);
  return planOf(id, coverage, siblings);
});
for (const { id, rounds, alone = [] } of plans) {
  if (rounds.length + alone.length === 0) unreached.add(id);
}
const [inTests, inLoading] = partition(
  plans.filter(({ id }) => !unreached.has(id)),
  ({ rounds }) => rounds.length > 0,
);
console.log(
  `${inTests.length} are run in one process, ${inLoading.length} alone, ${unreached.size} no test reaches`,
);
const progress = setInterval(() => {
  const count = written().filter(({ isClean }) => isClean !== undefined).length;
  console.log(
    `  ${((Date.now() - started) / 60_000).toFixed(1)} minutes: ${count} in this process`,
  );
}, PROGRESS_MS);
await runTogether(inTests);
const single = [...inLoading, ...unclear];
for (const [i, plan] of single.entries()) {
  await runAlone(plan);
  console.log(`${i + 1} of ${single.length} have run alone`);
}
clearInterval(progress);
await vitest.close();
report('finished');
process.exitCode = 0;
