/**
 * Mutation testing of all directories with a chosen test suite: also with tests that take long, start processes or run
 * the bundles. The faults are a seeded sample of all faults of `src`.
 *
 * All faults are inserted into one copy of the tree, each enabled by a switch, and the copy is built once. A run
 * without a fault records which test files reach which faults. Then each fault runs by itself: the switches read its id
 * from the environment, so child processes have the same fault as their test.
 */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { readOptions, refuse } from '../support/options.mjs';
import { ROOT } from './directories.mjs';
import { isKnown, mutantsOf } from './mutants.mjs';
import { keyOf, sameSample, sampleOf, withOccurrences } from './sample.mjs';
import { Suite } from './suite.mjs';
import { longestFirst, orderFor } from './suite-plan.mjs';
import { endAllGroups } from './suite-process.mjs';
import { formatKills, formatVerdict, pageOf } from './suite-report.mjs';
import { copyAll, copyTree, insertFaults } from './trees.mjs';

const USAGE = `mutate --all [options]
  --projects A,B   Vitest projects; the report counts kills of A, then of A and B (default: all)
  --count N        number of faults (default: 60)
  --seed S         choose other faults (default: 7)
  --like FILE      choose the faults of an earlier report, and compare with it
  --report NAME    write NAME.json and NAME.md (default: mutation)
  --lanes N        faults that run at a time (default: 2)
  --tree PATH      a checkout of another revision, with everything built
  --config FILE    its Vitest config (default: vitest.config.ts)
  --build COMMAND  its build command (default: npm run build)
About an hour on two cores. After Ctrl-C, the report has the faults that have run.`;

const { values, positionals } = readOptions('mutate', USAGE, {
  all: { type: 'boolean' },
  projects: { type: 'string', default: '' },
  count: { type: 'string', number: 'whole', least: 1, default: '60' },
  seed: { type: 'string', number: 'whole', default: '7' },
  like: { type: 'string' },
  report: { type: 'string', default: 'mutation' },
  lanes: { type: 'string', number: 'whole', least: 1, default: '2' },
  tree: { type: 'string', default: ROOT },
  config: { type: 'string', default: 'vitest.config.ts' },
  build: { type: 'string', default: 'npm run --silent build' },
});
if (positionals.length > 0) refuse('mutate', '--all takes no directory');
const tree = resolve(values.tree);
const projects = values.projects.split(',').filter((name) => name !== '');
const earlier = values.like && JSON.parse(readFileSync(values.like, 'utf8')).faults;
const equivalents = JSON.parse(readFileSync(new URL('equivalents.json', import.meta.url)));

function allMutants() {
  return readdirSync(join(tree, 'src'), { recursive: true })
    .map((name) => `src/${name.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.ts'))
    .sort()
    .flatMap((path) => withOccurrences(mutantsOf(path, readFileSync(join(tree, path), 'utf8'))))
    .filter((mutant) => !isKnown(equivalents, mutant));
}

const started = Date.now();
const minutes = () => ((Date.now() - started) / 60_000).toFixed(1);
const log = (text) => console.log(`${minutes()} min: ${text}`);
const { found, gone } =
  earlier === undefined
    ? { found: sampleOf(allMutants(), values.seed, values.count), gone: [] }
    : sameSample(allMutants(), earlier.map(keyOf));
const mutants = found.map((mutant, id) => ({ ...mutant, id }));
const verdicts = new Map();
let files = [];

function report() {
  const judged = mutants.filter(({ id }) => verdicts.has(id));
  const result = {
    seed: values.seed,
    total: mutants.length + gone.length,
    projects,
    minutes: minutes(),
    failing: files.flatMap(({ path, failed, isBroken }) =>
      isBroken ? [path] : failed.map(({ name }) => `${path}: ${name}`),
    ),
    gone,
    faults: judged.map(({ path, line, place, lineText, fault, occurrence, id }) => ({
      ...{ path, line, place, lineText, fault, occurrence },
      ...verdicts.get(id),
    })),
  };
  writeFileSync(`${values.report}.json`, `${JSON.stringify(result, null, 2)}\n`);
  writeFileSync(`${values.report}.md`, pageOf(result, earlier));
  return formatKills(projects, result.faults, result.total);
}

// Paths of sockets in it are limited to about a hundred characters.
const scratch = mkdtempSync(join(tmpdir(), 'mutants-'));
// Some tests run programs as another user.
chmodSync(scratch, 0o755);
process.on('exit', () => {
  endAllGroups();
  rmSync(scratch, { recursive: true, force: true, maxRetries: 10 });
});
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    report();
    process.exit(1);
  });
}

const lanes = Array.from({ length: values.lanes }, (_, i) => ({
  tree: join(scratch, `${i}`),
  temporary: join(scratch, `t${i}`),
}));
const [first, ...others] = lanes;
copyTree(tree, first.tree);
insertFaults(first.tree, mutants, values.build);
for (const lane of others) copyAll(first.tree, lane.tree);
log(`${mutants.length} faults inserted, seed ${values.seed}`);

const suite = new Suite({ config: values.config, projects, log });
files = await suite.cover(first, join(scratch, 'records'));
log(`${files.length} test files have run without a fault`);

const queue = longestFirst(mutants, files);
await Promise.all(
  lanes.map(async (lane) => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const { id, path, line, fault } = mutant;
      const verdict = await suite.judge(lane, id, orderFor(mutant, files, projects));
      verdicts.set(id, verdict);
      report();
      const count = `${verdicts.size}/${mutants.length}`;
      log(`${count} ${path}:${line} ${fault}: ${formatVerdict(verdict)}, ${verdict.seconds} s`);
    }
  }),
);
log(`finished. Killed by ${report()}; ${values.report}.md has the list`);
