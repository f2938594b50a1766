/**
 * Shows the package on a checkpoint beside other ways to read the same weights.
 * `npm run demo [-- PATH] [-- --size 1GB]`
 */
import { spawnSync } from 'node:child_process';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';
import * as commandLine from './command-line.mjs';
import { pick } from './contenders.mjs';
import { prepareEquipment, ROOT_FOLDER } from './equipment.mjs';
import { modelTensors, writeModel } from './models.mjs';
import { markdownSection } from './report.mjs';
import { runSection } from './section.mjs';
import { READING_TABLE, readAll } from './trials/reading.mjs';

const HELP = `usage: npm run demo [-- PATH] [-- --size SIZE]

Opens a safetensors file and measures reading it, beside fs.readFile, torch.load and pickle.
  PATH         a file of your own; without it a model is made in a temporary folder
  --size SIZE  size of the model that is made, such as 500MB or 1GB (256MB)
SAFETENSORS_PYTHON names the Python to compare with (else .venv/bin/python, else python3).`;

const READERS = pick('ours readFile torchLoad pickle');
const ROUNDS = 3;

/** Inspects the file by the command line of the package, and times reading it. */
async function show(path, folder, signal) {
  const file = safeOpen(path);
  const { byteLength, size, storage } = file;
  file.close();
  console.log(`opened with storage "${storage}":\n`);
  const command = [join(ROOT_FOLDER, 'lib/cli.js'), 'inspect', path, '--tree'];
  spawnSync(process.execPath, command, { stdio: 'inherit' });
  if (size === 0) {
    console.log('\nThere is nothing to measure in a file without tensors.');
    return;
  }
  const cache = byteLength > freemem() / 2 ? undefined : 'warm';
  const place = cache === 'warm' ? 'in the page cache' : 'too large to be kept in memory';
  const page = `
    ## Each in fresh processes, medians of ${ROUNDS}; the file is ${place}${READING_TABLE}
    - "every byte" ends when the same loop has read all tensors, and has found the same in all rows`;
  const trial = { name: 'demo', ...readAll(cache, READERS, () => ROUNDS), page };
  const equipment = await prepareEquipment(path, folder, signal);
  const section = await runSection(trial, { equipment, folder, signal });
  console.log(`\n${markdownSection(section)}`);
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
