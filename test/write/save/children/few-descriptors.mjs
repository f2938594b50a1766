/**
 * Writes checkpoints of more shards than the process has descriptors, in every way; prints the calls that fail, with
 * their errors.
 */
import { deepEqual, equal } from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import {
  convert,
  createWriter,
  loadFile,
  parse,
  safeOpen,
  saveCheckpoint,
  saveFile,
  select,
  serialize,
  serializeStream,
} from '../../../../lib/index.js';

const [, , folder, storage, tensorCount] = process.argv;
const COUNT = Number(tensorCount);
const target = mkdtempSync(join(tmpdir(), 'few-'));
const failed = {};
let targets = 0;

/** Whether a file or folder has all tensors. */
function requireAll(path) {
  const tensors = path instanceof Map ? path : loadFile(path);
  equal(tensors.size, COUNT);
  for (let i = 0; i < COUNT; i++) deepEqual(tensors.get(`t${i}`).toFloat32()[0], i);
}

/** Runs a call on a new handle, with a new path to write to, and compares what it wrote. */
async function run(name, work) {
  const checkpoint = safeOpen(folder, { storage });
  const path = join(target, `${targets++}`);
  try {
    requireAll((await work(checkpoint, path)) ?? path);
  } catch (error) {
    failed[name] = `${error.code}: ${error.message}`.slice(0, 300);
  } finally {
    checkpoint.close();
  }
}

const PATTERN = { maxShardSize: 64 };
const file = (path) => `${path}.safetensors`;

await run('saveFile', async (one, path) => {
  await saveFile(file(path), one);
  return loadFile(file(path));
});
await run('saveFile with digests', async (one, path) => {
  await saveFile(file(path), one.getTensors(), { digests: true });
  return loadFile(file(path));
});
await run('saveFile of a closed checkpoint', async (one, path) => {
  const saving = saveFile(file(path), one.getTensors());
  one.close();
  await saving;
  return loadFile(file(path));
});
await run('saveFile of a cast view', async (one, path) => {
  await saveFile(file(path), select(one, { dtype: 'F16' }));
  return loadFile(file(path));
});
await run('saveCheckpoint', (one, path) => saveCheckpoint(path, one).then(() => {}));
await run('saveCheckpoint into shards', (one, path) =>
  saveCheckpoint(path, one.getTensors(), PATTERN).then(() => {}),
);
await run('createWriter', async (one, path) => {
  const names = [...one.keys()];
  const writer = await createWriter(
    file(path),
    new Map(names.map((name) => [name, one.info(name)])),
  );
  await Promise.all(names.map((name) => writer.write(name, one.getTensor(name))));
  await writer.close();
  return loadFile(file(path));
});
await run('convert', (_, path) => convert(folder, path).then(() => {}));
await run('convert into shards', (_, path) => convert(folder, path, PATTERN).then(() => {}));
await run('convert without verification', (_, path) =>
  convert(folder, path, { verify: false }).then(() => {}),
);
await run('convert to another dtype', (_, path) =>
  convert(folder, path, { dtype: 'F16' }).then(() => {}),
);
await run('convert to a file', async (_, path) => {
  await convert(folder, file(path));
  return loadFile(file(path));
});
await run('serialize', (one) => loadBytes(serialize(one.getTensors())));
await run('serializeStream', async (one) => {
  const pieces = [];
  for await (const piece of serializeStream(one, { digests: true })) pieces.push(piece);
  return loadBytes(Buffer.concat(pieces));
});

function loadBytes(bytes) {
  return new Map(parse(bytes));
}

process.stdout.write(JSON.stringify(failed));
