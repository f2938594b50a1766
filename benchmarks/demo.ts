/**
 * Shows the package on a checkpoint beside other ways to read the same weights.
 * `npm run demo [-- PATH] [-- --size 1GB]`
 */
import { freemem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type SafetensorsFile, safeOpen } from 'safetensors-mmap';
import {
  endProgress,
  runCommand,
  showProgress,
  UsageError,
  withTemporaryFolder,
} from './command-line.js';
import { type Driver, OURS, PICKLE, READ_FILE, TORCH_LOAD } from './drivers.js';
import { prepareEquipment } from './equipment.js';
import { alignedTable, cell, formatByteSize, formatDuration, parseByteSize } from './figures.js';
import { medianOf } from './measure.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from './model.js';
import { measureReaders, selectAll } from './readers.js';
import { writeModel } from './write-model.js';

const HELP = `usage: npm run demo [-- PATH] [-- --size SIZE]

Opens a safetensors file and measures reading it, beside fs.readFile, torch.load and pickle.
  PATH         a file of your own; without it a model is made in a temporary folder
  --size SIZE  size of the model that is made, such as 500MB or 1GB (256MB)
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const DEFAULT_SIZE = '256MB';
const ROUNDS = 3;
/** A checkpoint may have thousands of tensors and megabytes of metadata: this much is shown. */
const SHOWN_TENSORS = 6;
const SHOWN_METADATA = 8;
const SHOWN_CHARACTERS = 70;

const DRIVERS: readonly Driver[] = [OURS, READ_FILE, TORCH_LOAD, PICKLE];

function readSize(text: string): number {
  const bytes = parseByteSize(text);
  if (bytes === undefined) {
    throw new UsageError(`--size must be a size such as 256MB or 1GB, but is "${text}"`);
  }
  if (bytes < MIN_MODEL_BYTES) {
    throw new UsageError(`--size must be at least ${formatByteSize(MIN_MODEL_BYTES)}`);
  }
  return bytes;
}

async function makeModel(folder: string, byteLength: number, signal: AbortSignal): Promise<string> {
  const path = join(folder, 'model.safetensors');
  const tensors = modelTensors(modelSizes(byteLength));
  const onProgress = (share: number): void =>
    showProgress(`making a model of ${formatByteSize(byteLength)}: ${Math.round(share * 100)} %`);
  await writeModel(path, tensors, signal, onProgress);
  endProgress();
  return path;
}

/** Text from a file as a terminal can show it: one line, no control characters, cut. */
function printable(text: string): string {
  const cut = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
  const escaped = (character: string): string =>
    `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, escaped);
}

/** The first tensors and metadata of a file, with the numbers of all. */
function describeFile(file: SafetensorsFile): string {
  const lines = ['Metadata'];
  const metadata = [...(file.metadata ?? [])];
  for (const [key, value] of metadata.slice(0, SHOWN_METADATA)) {
    lines.push(`  ${printable(key)} = ${printable(value)}`);
  }
  const moreMetadata = metadata.length - SHOWN_METADATA;
  if (moreMetadata > 0) lines.push(`  … and ${moreMetadata} more`);
  if (metadata.length === 0) lines.push('  none');
  const names = file.offsetKeys();
  lines.push(`Tensors: ${names.length}`);
  const rows = names.slice(0, SHOWN_TENSORS).map((name) => {
    const { dtype, shape, dataOffsets } = file.info(name);
    const size = formatByteSize(dataOffsets[1] - dataOffsets[0]);
    return [`  ${printable(name)}`, dtype, printable(`[${shape.join(', ')}]`), size];
  });
  if (rows.length > 0) lines.push(alignedTable(rows));
  const more = names.length - rows.length;
  if (more > 0) lines.push(`  … and ${more} more`);
  return lines.join('\n');
}

async function show(
  path: string,
  byteLength: number,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const equipment = await prepareEquipment(path, folder, signal);
  const cache = byteLength > freemem() / 2 ? undefined : 'warm';
  const plan = { title: 'reading', cache, rounds: ROUNDS } as const;
  const rows = await measureReaders(DRIVERS, plan, selectAll(path), equipment, signal);
  endProgress();
  const where = cache === 'warm' ? 'in the page cache' : 'too large to be kept in memory';
  console.log(`\nEach row: fresh processes, the file ${where}, medians of ${ROUNDS}. The clock
starts at the call that opens the file; "every byte" ends when the same loop has read all tensors.\n`);
  const unit = medianOf(rows, OURS, (result) => result.everyByte);
  const measured = rows.filter(({ reason }) => reason === undefined);
  const body = measured.map(({ driver }) => {
    const everyByte = medianOf(rows, driver, (result) => result.everyByte);
    const memory = (kind: 'anonymous' | 'fileBacked'): string => {
      const [before, after] = (['before', 'after'] as const).map((when) =>
        medianOf(rows, driver, (result) => (result[when]?.[kind] ?? Number.NaN) / 1e6).toFixed(1),
      );
      return before === 'NaN' ? '–' : `${before} → ${after} MB`;
    };
    return [
      driver.name,
      formatDuration(medianOf(rows, driver, (result) => result.open)),
      formatDuration(medianOf(rows, driver, (result) => result.firstTensor)),
      formatDuration(everyByte),
      cell(everyByte / unit, (ratio) => `${ratio.toPrecision(2)} ×`),
      memory('anonymous'),
      memory('fileBacked'),
    ];
  });
  const head = ['', 'open', 'first tensor', 'every byte', 'ratio', 'private memory'];
  console.log(alignedTable([[...head, 'file-backed memory'], ...body]));
  console.log('');
  for (const { driver, reason } of rows) {
    if (reason !== undefined) console.log(`not measured: ${driver.name}: ${reason}`);
  }
  const checksum = measured[0]?.results[0]?.checksum;
  if (checksum !== undefined) console.log(`sum of all words, equal in all rows: ${checksum}`);
}

async function demo(args: string[], signal: AbortSignal): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { size: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const [given, ...others] = positionals;
  if (others.length > 0) throw new UsageError('takes one PATH at most');
  if (given !== undefined && values.size !== undefined) {
    throw new UsageError('takes either a PATH or --size: a file of your own keeps its size');
  }
  const modelBytes = given === undefined ? readSize(values.size ?? DEFAULT_SIZE) : 0;
  await withTemporaryFolder(modelBytes, async (folder) => {
    const path = given ?? (await makeModel(folder, modelBytes, signal));
    const file = safeOpen(path);
    const size = formatByteSize(file.byteLength);
    console.log(`${path}\n${size}, opened with storage "${file.storage}"`);
    console.log(describeFile(file));
    const { byteLength } = file;
    const isEmpty = file.size === 0;
    file.close();
    if (isEmpty) console.log('\nThere is nothing to measure in a file without tensors.');
    else await show(path, byteLength, folder, signal);
  });
}

await runCommand('demo', demo);
