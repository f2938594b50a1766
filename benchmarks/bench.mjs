/**
 * Measures this package against other readers and writers and prints Markdown, or two versions of it.
 * `npm run bench [-- --size 2GB] [-- --only every-byte,cold] [-- --save]`
 */
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import * as commandLine from './command-line.mjs';
import { compareTrees, LEAST_ROUNDS } from './compare.mjs';
import { prepareEquipment, ROOT_FOLDER } from './equipment.mjs';
import { formatByteSize } from './figures.mjs';
import { modelTensors, writeModel } from './models.mjs';
import * as report from './report.mjs';
import { runSection } from './section.mjs';
import { NAMES, TRIALS } from './trials.mjs';

const HELP = `usage: npm run bench [-- OPTIONS]

Measures this package against other readers and writers and prints Markdown.
  --size SIZE   size of the model file (1GB); every format has a copy of its own
  --rounds N    fresh processes per reader, of which the median counts (3; with --compare 20, at least 11)
  --only NAMES  some trials, separated by commas:
                ${NAMES.join(', ')}
  --save        also put the tables and targets of this run into benchmarks/results, and what
                README.md and pages of docs/ take from there; on a Node other than that of the
                tables, the targets alone
  --compare COMMIT
                instead, this package as it is in the folder and in the commit, in turns: which is
                faster, and by how much; models of 256MB unless told
  --try         instead, all trials once at a tiny size: whether they run; the figures mean nothing
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const RESULTS_FOLDER = join(import.meta.dirname, 'results');

/** Files as large as the model: in every format, and one that is being saved. */
const MODEL_FILES = 4;
/** Further files of the trials, whatever the size of the model. */
const OTHER_BYTES = 1e9;

const [TEXT, FLAG] = [{ type: 'string' }, { type: 'boolean' }];
const OPTIONS = { size: TEXT, rounds: TEXT, only: TEXT, compare: TEXT, save: FLAG, try: FLAG };

/** By the option that asks for it: the usual size of the model, the usual rounds, and the fewest. */
const WAYS = {
  save: ['1GB', 3, 1],
  compare: ['256MB', 20, LEAST_ROUNDS],
  try: ['2MB', 1, 1],
};

function readOptions({ size, rounds, only, ...values }) {
  const ways = Object.keys(WAYS).filter((name) => values[name]);
  if (ways.length > 1) throw new commandLine.UsageError(`takes either --${ways.join(' or --')}`);
  const [usualSize, usualRounds, least] = WAYS[ways[0] ?? 'save'];
  const byteLength = commandLine.readSize(size ?? usualSize);
  const count = Number(rounds ?? usualRounds);
  if (!Number.isInteger(count) || count < least) {
    const rule = `--rounds must be a whole number of ${least} or more, but is "${rounds}"`;
    throw new commandLine.UsageError(rule);
  }
  const names = only?.split(',').map((name) => name.trim()) ?? NAMES;
  if (!names.every((name) => NAMES.includes(name))) {
    throw new commandLine.UsageError(`--only must name some of ${NAMES.join(', ')}`);
  }
  return { byteLength, rounds: count, names };
}

/** The conditions of the figures: the date, the machine, versions, and how much was read how often. */
function describeRun({ python, npmPackages }, byteLength, rounds) {
  const versionOf = (pair) => pair.join(' ');
  const versions = (packages) => Object.entries(packages).map(versionOf).join(', ');
  const { version } = JSON.parse(readFileSync(join(ROOT_FOLDER, 'package.json'), 'utf8'));
  const own = { 'safetensors-mmap': version, ...npmPackages };
  return {
    date: new Date().toISOString().slice(0, 10),
    processor: `${cpus()[0]?.model.trim() || 'unknown'}, ${cpus().length} cores`,
    memory: formatByteSize(totalmem()),
    kernel: `${process.platform} ${release()} ${process.arch}`,
    node: `${process.versions.node}, ${versions(own)}`,
    python: typeof python === 'string' ? python : `${python.version}, ${versions(python.packages)}`,
    model: `${formatByteSize(byteLength)}, BF16, 147 tensors`,
    rounds: `medians of ${rounds}, every one in a process of its own`,
  };
}

/** Changes the page of results with its charts, and the figures of the pages that repeat them. */
async function saveResults(facts, sections, isWhole) {
  const page = await readFile(join(RESULTS_FOLDER, 'results.md'), 'utf8');
  const files = report.resultFiles(page, facts, sections, isWhole);
  for (const [name, content] of files) await writeFile(join(RESULTS_FOLDER, name), content);
  for (const path of report.PAGES.map((page) => join(ROOT_FOLDER, page))) {
    const own = await readFile(path, 'utf8');
    await writeFile(path, report.refreshTables(own, files.get('results.md')));
  }
}

async function bench(values, signal) {
  const { byteLength, rounds, names } = readOptions(values);
  const { try: isTry = false, compare, save, only } = values;
  const trials = TRIALS.filter(({ name }) => names.includes(name));
  await commandLine.withTemporaryFolder(MODEL_FILES * byteLength + OTHER_BYTES, async (folder) => {
    const path = join(folder, 'model.safetensors');
    commandLine.showProgress('making the model');
    await writeModel(path, modelTensors(byteLength), signal);
    const equipment = await prepareEquipment(path, folder, signal);
    // A tiny size instead of that of the page; more rounds than the others have.
    const size = (full, tiny) => (isTry ? tiny : full);
    const many = (count) => (isTry ? 1 : count);
    const context = { equipment, path, rounds, folder, signal, isTry, size, many };
    if (compare !== undefined) {
      await compareTrees(compare, trials, context);
      return;
    }
    const facts = describeRun(equipment, byteLength, rounds);
    console.log(report.markdownInfo(facts));
    const sections = [];
    for (const trial of trials) {
      sections.push(await runSection(trial, context));
      console.log(`\n${report.markdownSection(sections.at(-1))}`);
    }
    console.log(`\n${report.targetSection(facts, sections)}`);
    if (save) await saveResults(facts, sections, only === undefined);
  });
}

await commandLine.runCommand('bench', HELP, { options: OPTIONS }, bench);
