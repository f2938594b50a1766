/**
 * Measures this package beside other readers and prints Markdown.
 * `npm run bench [-- --size 2GB] [-- --only every-byte,cold] [-- --json FILE] [-- --save]`
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseByteSize } from './byte-size.js';
import { endProgress, runCommand, showProgress, UsageError } from './command-line.js';
import { prepareEquipment } from './equipment.js';
import { describeMachine } from './machine.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from './model.js';
import { markdownSection, markdownTargets } from './report.js';
import { type Measured, saveResults } from './results.js';
import { runChild } from './run-child.js';
import { withTemporaryFolder } from './temporary-folder.js';
import type { Trial } from './trials/context.js';
import { findTrials, TRIAL_NAMES, TRIALS } from './trials.js';
import { writeModel } from './write-model.js';

const HELP = `usage: npm run bench [-- OPTIONS]

Measures this package beside other readers and prints Markdown.
  --size SIZE   size of the model file (1GB); every format has a copy of its own
  --rounds N    fresh processes per reader, of which the median counts (3)
  --only NAMES  some trials, separated by commas:
                ${TRIAL_NAMES.slice(0, 7).join(', ')},
                ${TRIAL_NAMES.slice(7, 14).join(', ')},
                ${TRIAL_NAMES.slice(14).join(', ')}
  --json FILE   also write every measurement there
  --save        also write JSON, Markdown and charts into benchmarks/results
  --node PATH   Node 22 or later for the count of collections, when this one is older
SAFETENSORS_PYTHON names the Python to compare with (else the one that \`npm run bench:setup\` made,
else .venv/bin/python, else python3).`;

/** Node 20 has no buffers above 4 GiB, which the count of collections needs. */
const COLLECTIONS_NODE_MAJOR = 22;

/** The command line, checked. */
interface BenchOptions {
  readonly byteLength: number;
  readonly rounds: number;
  readonly trials: readonly Trial[];
  readonly json: string | undefined;
  readonly save: boolean;
  readonly node: string;
}

function readOptions(args: string[]): BenchOptions | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      size: { ...text, default: '1GB' },
      rounds: { ...text, default: '3' },
      only: text,
      json: text,
      save: { type: 'boolean', default: false },
      node: { ...text, default: process.execPath },
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
  const trials = values.only === undefined ? TRIALS : findTrials(values.only);
  if (trials === undefined) {
    throw new UsageError(`--only must name some of ${TRIAL_NAMES.join(', ')}`);
  }
  const { json, save, node } = values;
  return { byteLength, rounds, trials, json, save, node };
}

/** The given Node when it is recent enough. */
async function findCollectionsNode(file: string, signal: AbortSignal): Promise<string | undefined> {
  const args = ['--print', 'parseInt(process.versions.node, 10)'];
  const major = await runChild<number>({ file, args }, signal);
  return major >= COLLECTIONS_NODE_MAJOR ? file : undefined;
}

async function bench(args: string[], signal: AbortSignal): Promise<void> {
  const options = readOptions(args);
  if (options === undefined) {
    console.log(HELP);
    return;
  }
  const { byteLength, rounds, trials } = options;
  const collectionsNode = await findCollectionsNode(options.node, signal);
  const drivers = trials.flatMap((trial) => trial.drivers);
  const files = new Set(['safetensors', ...drivers.map(({ input }) => input)]).size;
  const written = Math.max(...trials.map((trial) => trial.written ?? 0));
  await withTemporaryFolder((files + written) * byteLength, async (folder) => {
    const path = join(folder, 'model.safetensors');
    showProgress('making the model');
    await writeModel(path, modelTensors(modelSizes(byteLength)), { signal });
    const equipment = await prepareEquipment(path, drivers, folder, signal);
    const machine = describeMachine(equipment, byteLength, rounds);
    console.log(
      Object.entries(machine)
        .map((pair) => `- ${pair.join(': ')}`)
        .join('\n'),
    );
    const context = { equipment, path, rounds, folder, collectionsNode, signal };
    const measured: Measured[] = [];
    for (const { name, run } of trials) {
      const begin = performance.now();
      const section = await run(context);
      endProgress();
      measured.push({ name, seconds: (performance.now() - begin) / 1e3, ...section });
      console.log(`\n${markdownSection(section)}`);
    }
    console.log(`\n${markdownTargets(measured.flatMap((section) => section.targets))}`);
    const results = { machine, trials: measured };
    if (options.json !== undefined) {
      await writeFile(options.json, `${JSON.stringify(results, null, 2)}\n`);
    }
    if (options.save) await saveResults(results);
  });
}

await runCommand('bench', bench);
