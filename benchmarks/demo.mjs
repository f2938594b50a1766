/**
 * Shows the package on a checkpoint beside other ways to read the same weights.
 * `npm run demo [-- PATH] [-- --size 1GB]`
 */
import { freemem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { safeOpen } from 'safetensors-mmap';
import { runCommand, showProgress, UsageError, withTemporaryFolder } from './command-line.mjs';
import { pick } from './contenders.mjs';
import { prepareEquipment } from './equipment.mjs';
import { alignedTable, formatByteSize, parseByteSize } from './figures.mjs';
import { measure } from './measure.mjs';
import { MIN_MODEL_BYTES, modelTensors, writeModel } from './models.mjs';
import { sectionOf } from './section.mjs';
import { selectAll } from './selection.mjs';

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

const READERS = pick('ours readFile torchLoad pickle');

function readSize(text) {
  const bytes = parseByteSize(text);
  if (bytes === undefined) {
    throw new UsageError(`--size must be a size such as 256MB or 1GB, but is "${text}"`);
  }
  if (bytes >= MIN_MODEL_BYTES) return bytes;
  throw new UsageError(`--size must be at least ${formatByteSize(MIN_MODEL_BYTES)}`);
}

async function makeModel(folder, byteLength, signal) {
  const path = join(folder, 'model.safetensors');
  const onProgress = (share) =>
    showProgress(`making a model of ${formatByteSize(byteLength)}: ${Math.round(share * 100)} %`);
  await writeModel(path, modelTensors(byteLength), signal, onProgress);
  showProgress('');
  return path;
}

/** Text from a file as a terminal can show it: one line, no control characters, cut. */
function printable(text) {
  const cut = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
  const escaped = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, escaped);
}

/** The first lines, and the number of the others. */
const shortened = (lines, shown, count) =>
  count > shown ? [...lines, `  … and ${count - shown} more`] : lines;

/** The first tensors and metadata of a file, with the numbers of all. */
function describeFile(file) {
  const metadata = Array.from(
    file.metadata ?? [],
    ([key, value]) => `  ${printable(key)} = ${printable(value)}`,
  );
  const names = file.offsetKeys();
  const rows = names.slice(0, SHOWN_TENSORS).map((name) => {
    const { dtype, shape, dataOffsets } = file.info(name);
    const size = formatByteSize(dataOffsets[1] - dataOffsets[0]);
    return [`  ${printable(name)}`, dtype, printable(`[${shape.join(', ')}]`), size];
  });
  const table = rows.length > 0 ? [alignedTable(rows)] : [];
  const entries = metadata.length > 0 ? metadata.slice(0, SHOWN_METADATA) : ['  none'];
  return [
    ...['Metadata', ...shortened(entries, SHOWN_METADATA, metadata.length)],
    ...[`Tensors: ${names.length}`, ...shortened(table, SHOWN_TENSORS, names.length)],
  ].join('\n');
}

async function show(path, byteLength, folder, signal) {
  const equipment = await prepareEquipment(path, folder, signal);
  const cache = byteLength > freemem() / 2 ? undefined : 'warm';
  const args = [equipment.programs, ...selectAll(path)];
  const leg = { contenders: READERS, cache, rounds: ROUNDS, args, trusted: pick('ours') };
  const measured = await measure(leg, 'reading', { equipment, signal });
  showProgress('');
  const where = cache === 'warm' ? 'in the page cache' : 'too large to be kept in memory';
  console.log(`\nEach row: fresh processes, the file ${where}, medians of ${ROUNDS}. The clock
starts at the call that opens the file; "every byte" ends when the same loop has read all tensors.\n`);
  const memory = (kind) => (contender) => {
    const [before, after] = ['before', 'after'].map((when) =>
      (measured.median(contender, (line) => line[when]?.[kind] ?? Number.NaN) / 1e6).toFixed(1),
    );
    return before === 'NaN' ? '–' : `${before} → ${after} MB`;
  };
  const read = READERS.filter((contender) => measured.lines(contender).length > 0);
  const table = {
    contenders: read,
    values: () => ({ anonymous: memory('anonymous'), fileBacked: memory('fileBacked') }),
    page: '|  | open = open | first tensor = firstTensor | every byte = everyByte | ratio = everyByte / ours.everyByte 1× | private memory = $anonymous | file-backed memory = $fileBacked |',
  };
  console.log(`${alignedTable(sectionOf(table, { measured }).rows)}\n`);
  for (const { contender, reason } of measured.rows) {
    if (reason !== undefined) console.log(`not measured: ${contender.name}: ${reason}`);
  }
  const [line] = read.flatMap((contender) => measured.lines(contender));
  if (line !== undefined) console.log(`sum of all words, equal in all rows: ${line.checksum}`);
}

async function demo(args, signal) {
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
    const { byteLength, size, storage } = file;
    console.log(`${path}\n${formatByteSize(byteLength)}, opened with storage "${storage}"`);
    console.log(describeFile(file));
    file.close();
    if (size === 0) console.log('\nThere is nothing to measure in a file without tensors.');
    else await show(path, byteLength, folder, signal);
  });
}

await runCommand('demo', demo);
