/**
 * Measures this package beside other readers and writers and prints Markdown.
 * `npm run bench [-- --size 2GB] [-- --only every-byte,cold] [-- --save]`
 */
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  endProgress,
  runCommand,
  showProgress,
  UsageError,
  withTemporaryFolder,
} from './command-line.js';
import { type Equipment, prepareEquipment, ROOT_FOLDER, SOURCE_FOLDER } from './equipment.js';
import { formatByteSize, parseByteSize } from './figures.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from './model.js';
import { PAGES, refreshTables } from './pages.js';
import {
  addTargets,
  type Facts,
  markdownFacts,
  markdownSection,
  replaceSections,
  resultFiles,
  type Section,
  targetSection,
} from './report.js';
import { TRIALS } from './trials.js';
import { writeModel } from './write-model.js';

const NAMES = [...TRIALS.keys()].join(', ');

const HELP = `usage: npm run bench [-- OPTIONS]

Measures this package beside other readers and writers and prints Markdown.
  --size SIZE   size of the model file (1GB); every format has a copy of its own
  --rounds N    fresh processes per reader, of which the median counts (3); short ones have more
  --only NAMES  some trials, separated by commas:
                ${NAMES}
  --save        also write the page and its charts into benchmarks/results, and the tables
                that README.md and pages of docs/ take from it
  --add         add the targets to that page, beside those of other versions of Node
  --replace     put the tables and targets of this run in the place of those on that page
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const RESULTS_FOLDER = join(SOURCE_FOLDER, 'results');
const PAGE = join(RESULTS_FOLDER, 'results.md');

/** Files as large as the model: in every format, and one that is being saved. */
const MODEL_FILES = 4;
/** What the trials write besides, whatever the size of the model. */
const OTHER_BYTES = 1e9;

/** The command line, checked. */
interface BenchOptions {
  readonly byteLength: number;
  readonly rounds: number;
  /** Names of the trials. */
  readonly names: readonly string[];
  readonly save: boolean;
  readonly add: boolean;
  readonly replace: boolean;
}

function readOptions(args: string[]): BenchOptions | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      size: { ...text, default: '1GB' },
      rounds: { ...text, default: '3' },
      only: text,
      save: { type: 'boolean', default: false },
      add: { type: 'boolean', default: false },
      replace: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return undefined;
  const byteLength = parseByteSize(values.size);
  if (byteLength === undefined || byteLength < MIN_MODEL_BYTES) {
    throw new UsageError(`--size must be a size of 1MB or more, but is "${values.size}"`);
  }
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) {
    throw new UsageError(`--rounds must be a whole number above 0, but is "${values.rounds}"`);
  }
  const names = values.only?.split(',').map((name) => name.trim()) ?? [...TRIALS.keys()];
  if (!names.every((name) => TRIALS.has(name))) {
    throw new UsageError(`--only must name some of ${NAMES}`);
  }
  if (values.save && values.only !== undefined) {
    throw new UsageError('--save needs all trials, without --only');
  }
  const { save, add, replace } = values;
  if (save && add) throw new UsageError('takes either --save or --add');
  if (replace && (save || add)) throw new UsageError('takes --replace without --save and --add');
  return { byteLength, rounds, names, save, add, replace };
}

/** What the figures depend on: the date, the machine, versions, and how much was read how often. */
function describeRun(
  { python, npmPackages }: Equipment,
  { byteLength, rounds }: BenchOptions,
): Facts {
  const versions = (packages: Readonly<Record<string, string>>): string =>
    Object.entries(packages)
      .map((pair) => pair.join(' '))
      .join(', ');
  const { version }: { version: string } = JSON.parse(
    readFileSync(join(ROOT_FOLDER, 'package.json'), 'utf8'),
  );
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

/** Writes the page of results with its charts. */
async function savePage(facts: Facts, sections: readonly Section[]): Promise<void> {
  const files = resultFiles(facts, sections);
  for (const [name, content] of files) await writeFile(join(RESULTS_FOLDER, name), content);
  await refreshPages();
}

/** Writes the figures of the page of results into the pages that repeat them. */
async function refreshPages(): Promise<void> {
  const results = await readFile(PAGE, 'utf8');
  for (const page of PAGES) {
    const path = join(ROOT_FOLDER, page);
    await writeFile(path, refreshTables(await readFile(path, 'utf8'), results));
  }
}

async function bench(args: string[], signal: AbortSignal): Promise<void> {
  const options = readOptions(args);
  if (options === undefined) {
    console.log(HELP);
    return;
  }
  const { byteLength, rounds } = options;
  await withTemporaryFolder(MODEL_FILES * byteLength + OTHER_BYTES, async (folder) => {
    const path = join(folder, 'model.safetensors');
    showProgress('making the model');
    await writeModel(path, modelTensors(modelSizes(byteLength)), signal);
    const equipment = await prepareEquipment(path, folder, signal);
    const facts = describeRun(equipment, options);
    console.log(markdownFacts(facts));
    const sections: Section[] = [];
    for (const name of options.names) {
      const measured = await TRIALS.get(name)?.({ equipment, path, rounds, folder, signal });
      endProgress();
      for (const section of [measured ?? []].flat()) {
        sections.push(section);
        console.log(`\n${markdownSection(section)}`);
      }
    }
    console.log(`\n${targetSection(facts, sections)}`);
    if (options.save) await savePage(facts, sections);
    if (options.add) {
      await writeFile(PAGE, addTargets(await readFile(PAGE, 'utf8'), facts, sections));
    }
    if (options.replace) {
      await writeFile(PAGE, replaceSections(await readFile(PAGE, 'utf8'), facts, sections));
      await refreshPages();
    }
  });
}

await runCommand('bench', bench);
