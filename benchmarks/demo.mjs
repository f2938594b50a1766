/**
 * Shows a checkpoint, then times reading it with this package, fs.readFile, torch and pickle.
 * `npm run demo [-- PATH] [-- --size 1GB]`
 */
import { spawnSync } from 'node:child_process';
import { freemem } from 'node:os';
import { basename, join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';
import * as commandLine from './command-line.mjs';
import { CONTENDERS, pick } from './contenders.mjs';
import { prepareEquipment, ROOT_FOLDER } from './equipment.mjs';
import { formatByteSize, formatDuration, markdownTable, median } from './figures.mjs';
import { runTrial } from './measure.mjs';
import { modelTensors, writeModel } from './models.mjs';
import { sectionOf } from './section.mjs';
import { growthOf, readAll } from './trials/reading.mjs';

const HELP = `usage: npm run demo [-- PATH] [-- --size SIZE]

Shows a safetensors file, then times reading it with this package, fs.readFile, torch and pickle.
  PATH         a safetensors file; by default a model is generated in a temporary folder
  --size SIZE  size of the generated model, such as 500MB or 1GB (256MB)
SAFETENSORS_PYTHON is the Python to compare with (default: .venv/bin/python, then python3).`;

const READERS = pick('ours torch readFile torchLoad pickle');
const { ours, readFile } = CONTENDERS;
const ROUNDS = 3;

const isLinux = process.platform === 'linux';
const PAGE = `
    ## Reading
    | reader | open = open | first tensor = firstTensor | every byte = everyByte | of fastest = everyByte / $fastest ×${isLinux ? ' | private memory = anonymous +MB' : ''} |`;

const COLUMNS = `\
  open            until the file is open
  first tensor    until the first byte of the first tensor is read
  every byte      until the same compiled loop has summed all bytes; all sums are equal
  of fastest      "every byte" relative to the fastest reader${
    isLinux
      ? `
  private memory  growth of memory that is not shared with other processes (RssAnon)`
      : ''
  }`;

/** Below this size, opening the file takes as long as copying it. */
const SMALL_BYTES = 5_000_000;
/** Smaller differences are noise. */
const CLEARLY_FASTER = 1.1;

/** The result in one line, from what was measured. */
function conclusion({ read }, byteLength) {
  const time = (reader, figure) => read.median(reader, figure);
  const ratio = time(readFile, 'everyByte') / time(ours, 'everyByte');
  const open = `safetensors-mmap opens the file in ${formatDuration(time(ours, 'open'))}`;
  if (Number.isNaN(ratio)) return `${open}.`;
  if (ratio >= CLEARLY_FASTER) {
    const growth = (reader) => formatByteSize(median(read.every(reader, growthOf('anonymous'))));
    const memory = isLinux
      ? `, with ${growth(ours)} of private memory instead of ${growth(readFile)}`
      : '';
    return `${open} and reads every byte ${ratio.toFixed(1)} times as fast as fs.readFile${memory}.`;
  }
  const reason =
    byteLength < SMALL_BYTES
      ? 'mapping pays off above 5 MB'
      : 'unless the file is in the page cache, disk speed dominates';
  return `${open}, but reads every byte no faster than fs.readFile: ${reason}.`;
}

/** The readers without figures, the reasons, and what to install; empty when all were measured. */
function missingReaders({ read }) {
  const missing = read.rows.filter(({ lines }) => lines.length === 0);
  if (missing.length === 0) return '';
  const list = missing.map(({ contender, reason }) => `  ${contender.name}: ${reason}`);
  const remedy = missing.some(({ contender }) => contender.program.endsWith('.py'))
    ? '\nTo add the rows of Python, run `node scripts/python-env.mjs` (torch, numpy and safetensors in .venv).'
    : '';
  return `\nNot measured:\n${list.join('\n')}${remedy}\n`;
}

/** Prints the summary of `inspect`, then times reading the file. */
async function show(path, folder, signal) {
  const file = safeOpen(path);
  const { byteLength, size, storage } = file;
  file.close();
  console.log(`$ npx safetensors-mmap inspect ${basename(path)} --tree   # storage "${storage}"\n`);
  const command = [join(ROOT_FOLDER, 'lib/cli.js'), 'inspect', path, '--tree'];
  spawnSync(process.execPath, command, { stdio: 'inherit' });
  if (size === 0) {
    console.log('\nThere is nothing to measure in a file without tensors.');
    return;
  }
  const cache = byteLength > freemem() / 2 ? undefined : 'warm';
  const place = cache === 'warm' ? 'in the page cache' : 'too large for the page cache';
  const trial = { name: 'demo', ...readAll(cache, READERS, () => ROUNDS), page: PAGE };
  const equipment = await prepareEquipment(path, folder, signal);
  const bench = { equipment, folder, signal };
  const legs = await runTrial(trial, bench, (measured) => measured);
  commandLine.showProgress('');
  const contenders = READERS.filter((reader) => legs.read.lines(reader).length > 0).sort(
    (a, b) => legs.read.median(a, 'everyByte') - legs.read.median(b, 'everyByte'),
  );
  const { rows } = sectionOf({ ...trial, contenders }, legs, bench);
  const measured = `Time to read all ${formatByteSize(byteLength)}: medians of ${ROUNDS} fresh processes, file ${place}.`;
  console.log(`\n${measured}\n\n${markdownTable(rows)}\n\n${COLUMNS}`);
  console.log(`${missingReaders(legs)}\n${conclusion(legs, byteLength)}`);
}

async function demo({ size }, signal, [given, ...others]) {
  if (others.length > 0) throw new commandLine.UsageError('takes one PATH at most');
  if (given !== undefined && size !== undefined) {
    throw new commandLine.UsageError('takes either a PATH or --size');
  }
  const byteLength = given ? 0 : commandLine.readSize(size ?? '256MB');
  await commandLine.withTemporaryFolder(byteLength, async (folder) => {
    const path = given ?? join(folder, 'model.safetensors');
    if (!given) await writeModel(path, modelTensors(byteLength), signal);
    await show(path, folder, signal);
  });
}

const config = { allowPositionals: true, options: { size: { type: 'string' } } };
await commandLine.runCommand('demo', HELP, config, demo);
