/**
 * Shows the package on a checkpoint beside other ways to read the same weights.
 * `npm run demo [-- PATH] [-- --size 1GB]`
 */
import { freemem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { safeOpen } from 'safetensors-mmap';
import { formatByteSize, formatDuration, parseByteSize } from './byte-size.js';
import { endProgress, runCommand, showProgress, UsageError } from './command-line.js';
import { describeFile } from './describe-file.js';
import { type Driver, OURS, PICKLE, READ_FILE, TORCH_LOAD } from './drivers.js';
import { prepareEquipment } from './equipment.js';
import { measureReaders, medianOf, type ReaderRow } from './measure-readers.js';
import { MIN_MODEL_BYTES, modelSizes, modelTensors } from './model.js';
import { alignedTable } from './table.js';
import { withTemporaryFolder } from './temporary-folder.js';
import { writeModel } from './write-model.js';

const HELP = `usage: npm run demo [-- PATH] [-- --size SIZE]

Opens a safetensors file and measures reading it, beside fs.readFile, torch.load and pickle.
  PATH         a file of your own; without it a model is made in a temporary folder
  --size SIZE  size of the model that is made, such as 500MB or 1GB (256MB)
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const DEFAULT_SIZE = '256MB';
const ROUNDS = 3;
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
  await writeModel(path, tensors, { signal, onProgress });
  endProgress();
  return path;
}

function beforeAndAfter(row: ReaderRow, kind: 'anonymous' | 'fileBacked'): string {
  const before = medianOf(row, (result) => result.before?.[kind] ?? Number.NaN);
  const after = medianOf(row, (result) => result.after?.[kind] ?? Number.NaN);
  if (Number.isNaN(before)) return '–';
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return `${megabytes(before)} → ${megabytes(after)} MB`;
}

function resultTable(rows: readonly ReaderRow[]): string {
  const head = [
    '',
    'open',
    'first tensor',
    'every byte',
    'ratio',
    'private memory',
    'file-backed memory',
  ];
  const ours = rows.find((row) => row.driver === OURS);
  const unit = ours === undefined ? Number.NaN : medianOf(ours, (result) => result.everyByte);
  const measured = rows.filter((row) => row.reason === undefined);
  const body = measured.map((row) => {
    const everyByte = medianOf(row, (result) => result.everyByte);
    return [
      row.driver.name,
      formatDuration(medianOf(row, (result) => result.open)),
      formatDuration(medianOf(row, (result) => result.firstTensor)),
      formatDuration(everyByte),
      Number.isNaN(unit) ? '–' : `${(everyByte / unit).toPrecision(2)} ×`,
      beforeAndAfter(row, 'anonymous'),
      beforeAndAfter(row, 'fileBacked'),
    ];
  });
  return alignedTable([head, ...body]);
}

async function show(path: string, folder: string, signal: AbortSignal): Promise<void> {
  const equipment = await prepareEquipment(path, DRIVERS, folder, signal);
  const { all: selection } = equipment;
  const cache = selection.byteLength > freemem() / 2 ? 'unknown' : 'warm';
  const rows = await measureReaders(DRIVERS, equipment, {
    selection,
    cache,
    count: ROUNDS,
    signal,
  });
  endProgress();
  const where = cache === 'warm' ? 'in the page cache' : 'too large to be kept in memory';
  console.log(`\nEach row: fresh processes, the file ${where}, medians of ${ROUNDS}. The clock
starts at the call that opens the file; "every byte" ends when the same loop has read all tensors.\n`);
  console.log(resultTable(rows));
  console.log('');
  for (const { driver, reason } of rows) {
    if (reason !== undefined) console.log(`not measured: ${driver.name}: ${reason}`);
  }
  if (typeof equipment.loop === 'string') {
    console.log(`every byte is read by a loop in JavaScript: ${equipment.loop}`);
  }
  const checksum = rows.flatMap((row) => row.results)[0]?.checksum;
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
    const isEmpty = file.size === 0;
    file.close();
    if (isEmpty) console.log('\nThere is nothing to measure in a file without tensors.');
    else await show(path, folder, signal);
  });
}

await runCommand('demo', demo);
