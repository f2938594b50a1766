/**
 * Measures the project's figures with their rivals and prints them as Markdown.
 * `npm run bench [-- --size 1GB] [-- --rounds 5] [-- --json FILE] [-- --node PATH]`
 */
import { writeFile } from 'node:fs/promises';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatByteSize, parseByteSize } from './byte-size.js';
import { endProgress, runCommand, showProgress, UsageError } from './command-line.js';
import type { Equipment } from './drivers.js';
import { prepareEquipment } from './equipment.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from './model.js';
import { markdownSection, markdownTargets, type Section } from './report.js';
import { runChild } from './run-child.js';
import { withTemporaryFolder } from './temporary-folder.js';
import { collectionsTrial } from './trials/collections.js';
import type { TrialContext } from './trials/context.js';
import { convertTrial } from './trials/convert.js';
import { everyByteTrial } from './trials/every-byte.js';
import { openCallTrial } from './trials/open-call.js';
import { prefetchTrial } from './trials/prefetch.js';
import { processStartTrial } from './trials/process-start.js';
import { writeModel } from './write-model.js';

const HELP = `usage: npm run bench [-- OPTIONS]

Measures the project's figures beside other readers and prints Markdown.
  --size SIZE   size of the model file (1GB)
  --rounds N    fresh processes per reader, of which the median counts (5)
  --only NAME   one trial: every-byte, process-start, open-call, collections, prefetch or convert
  --json FILE   also write every measurement there
  --node PATH   Node 22 or later for the count of collections, when this one is older
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

/** Node 20 has no buffers above 4 GiB, which the count of collections needs. */
const COLLECTIONS_NODE_MAJOR = 22;

const TRIALS: ReadonlyMap<string, (context: TrialContext) => Promise<Section>> = new Map([
  ['every-byte', everyByteTrial],
  ['process-start', processStartTrial],
  ['open-call', openCallTrial],
  ['collections', collectionsTrial],
  ['prefetch', prefetchTrial],
  ['convert', convertTrial],
]);

/** The command line, checked. */
interface FiguresOptions {
  readonly byteLength: number;
  readonly rounds: number;
  readonly trials: readonly string[];
  readonly json: string | undefined;
  readonly node: string;
}

function readOptions(args: string[]): FiguresOptions | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      size: { ...text, default: '1GB' },
      rounds: { ...text, default: '5' },
      only: text,
      json: text,
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
  if (values.only !== undefined && !TRIALS.has(values.only)) {
    throw new UsageError(`--only must be one of ${[...TRIALS.keys()].join(', ')}`);
  }
  const trials = values.only === undefined ? [...TRIALS.keys()] : [values.only];
  return { byteLength, rounds, trials, json: values.json, node: values.node };
}

/** The given Node when it is recent enough. */
async function findCollectionsNode(file: string, signal: AbortSignal): Promise<string | undefined> {
  const args = ['--print', 'parseInt(process.versions.node, 10)'];
  const major = await runChild<number>({ file, args }, signal);
  return major >= COLLECTIONS_NODE_MAJOR ? file : undefined;
}

function describeMachine({ python }: Equipment, byteLength: number): Record<string, string> {
  const [cpu] = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpu?.model ?? 'unknown processor'}, ${cpus().length} cores`,
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
    python:
      typeof python === 'string'
        ? python
        : [python.version, ...Object.entries(python.packages).flat()].join(' '),
    file: `${formatByteSize(byteLength)}, BF16, 147 tensors`,
  };
}

async function figures(args: string[], signal: AbortSignal): Promise<void> {
  const options = readOptions(args);
  if (options === undefined) {
    console.log(HELP);
    return;
  }
  const { byteLength, rounds } = options;
  const collectionsNode = await findCollectionsNode(options.node, signal);
  // The model itself, and the copies of it for torch.load and pickle.
  await withTemporaryFolder(3 * byteLength, async (folder) => {
    const path = join(folder, 'model.safetensors');
    showProgress('making the model');
    await writeModel(path, modelTensors(modelSizes(byteLength)), { signal });
    const equipment = await prepareEquipment({ path, byteLength }, folder, signal);
    const machine = describeMachine(equipment, byteLength);
    console.log(
      ['# Figures', ...Object.entries(machine).map((pair) => pair.join(': '))].join('\n\n'),
    );
    const context = { equipment, path, rounds, folder, collectionsNode, signal };
    const sections: Section[] = [];
    for (const name of options.trials) {
      const section = await TRIALS.get(name)?.(context);
      endProgress();
      if (section === undefined) continue;
      sections.push(section);
      console.log(`\n${markdownSection(section)}`);
    }
    console.log(`\n${markdownTargets(sections.flatMap((section) => section.targets))}`);
    if (options.json !== undefined) {
      await writeFile(options.json, `${JSON.stringify({ machine, rounds, sections }, null, 2)}\n`);
    }
  });
}

await runCommand('bench', figures);
