/**
 * Measures this package beside other readers and writers and prints Markdown, or two versions of it.
 * `npm run bench [-- --size 2GB] [-- --only every-byte,cold] [-- --save]`
 */
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runCommand, showProgress, UsageError, withTemporaryFolder } from './command-line.mjs';
import { compareTrees, LEAST_ROUNDS } from './compare.mjs';
import { prepareEquipment, ROOT_FOLDER } from './equipment.mjs';
import { formatByteSize, parseByteSize } from './figures.mjs';
import { runTrial } from './measure.mjs';
import { MIN_MODEL_BYTES, modelTensors, writeModel } from './models.mjs';
import * as report from './report.mjs';
import { sectionOf } from './section.mjs';
import { NAMES, TRIALS } from './trials.mjs';

const HELP = `usage: npm run bench [-- OPTIONS]

Measures this package beside other readers and writers and prints Markdown.
  --size SIZE   size of the model file (1GB); every format has a copy of its own
  --rounds N    fresh processes per reader, of which the median counts (3); short ones have more
  --only NAMES  some trials, separated by commas:
                ${NAMES.join(', ')}
  --save        also write the page and its charts into benchmarks/results, and the tables
                that README.md and pages of docs/ take from it
  --add         add the targets to that page, beside those of other versions of Node
  --replace     put the tables and targets of this run in the place of those on that page
  --compare COMMIT
                instead, this package as it is in the folder and in the commit, in turns: which is
                faster, and by how much (256MB, 20 rounds)
  --try         instead, all trials once at a tiny size: whether they run; the figures mean nothing
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const PAGE = join(import.meta.dirname, 'results/results.md');

/** Files as large as the model: in every format, and one that is being saved. */
const MODEL_FILES = 4;
/** What the trials write besides, whatever the size of the model. */
const OTHER_BYTES = 1e9;

function readOptions(args) {
  const [text, flag] = [{ type: 'string' }, { type: 'boolean', default: false }];
  const { values } = parseArgs({
    args,
    options: {
      size: text,
      rounds: text,
      only: text,
      compare: text,
      ...{ save: flag, add: flag, replace: flag, try: flag },
      help: { ...flag, short: 'h' },
    },
  });
  const ways = ['save', 'add', 'replace', 'compare', 'try'].filter((name) => values[name]);
  if (ways.length > 1) throw new UsageError(`takes either --${ways.join(' or --')}`);
  const { compare, save, try: isTry } = values;
  const { size = isTry ? '2MB' : compare ? '256MB' : '1GB' } = values;
  const { rounds = isTry ? '1' : compare ? '20' : '3' } = values;
  const byteLength = parseByteSize(size);
  if (byteLength === undefined || byteLength < MIN_MODEL_BYTES) {
    throw new UsageError(`--size must be a size of 1MB or more, but is "${size}"`);
  }
  const least = compare ? LEAST_ROUNDS : 1;
  if (!Number.isInteger(Number(rounds)) || Number(rounds) < least) {
    throw new UsageError(`--rounds must be a whole number of ${least} or more, but is "${rounds}"`);
  }
  const names = values.only?.split(',').map((name) => name.trim()) ?? NAMES;
  if (!names.every((name) => NAMES.includes(name))) {
    throw new UsageError(`--only must name some of ${NAMES.join(', ')}`);
  }
  if (save && values.only !== undefined) {
    throw new UsageError('--save needs all trials, without --only');
  }
  return { ...values, byteLength, rounds: Number(rounds), names, isTry };
}

/** What the figures depend on: the date, the machine, versions, and how much was read how often. */
function describeRun({ python, npmPackages }, { byteLength, rounds }) {
  const versions = (packages) =>
    Object.entries(packages)
      .map((pair) => pair.join(' '))
      .join(', ');
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

/** Writes the page of results, and its figures into the pages that repeat them. */
async function changePages({ save, add, replace }, facts, sections) {
  if (save) {
    const files = report.resultFiles(facts, sections);
    for (const [name, content] of files) await writeFile(join(PAGE, '..', name), content);
  } else if (add || replace) {
    const change = add ? report.addTargets : report.replaceSections;
    await writeFile(PAGE, change(await readFile(PAGE, 'utf8'), facts, sections));
  }
  if (!save && !replace) return;
  const results = await readFile(PAGE, 'utf8');
  for (const path of report.PAGES.map((page) => join(ROOT_FOLDER, page))) {
    await writeFile(path, report.refreshTables(await readFile(path, 'utf8'), results));
  }
}

async function bench(args, signal) {
  const options = readOptions(args);
  if (options.help) {
    console.log(HELP);
    return;
  }
  const { byteLength, rounds, names, isTry, compare } = options;
  const trials = TRIALS.filter(({ name }) => names.includes(name));
  await withTemporaryFolder(MODEL_FILES * byteLength + OTHER_BYTES, async (folder) => {
    const path = join(folder, 'model.safetensors');
    showProgress('making the model');
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
    const facts = describeRun(equipment, options);
    console.log(report.markdownFacts(facts));
    const sections = [];
    for (const trial of trials) {
      const section = await runTrial(trial, context, (...measured) =>
        sectionOf(trial, ...measured),
      );
      showProgress('');
      sections.push(section);
      console.log(`\n${report.markdownSection(section)}`);
    }
    console.log(`\n${report.targetSection(facts, sections)}`);
    await changePages(options, facts, sections);
  });
}

await runCommand('bench', bench);
