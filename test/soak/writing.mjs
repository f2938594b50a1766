/** Writing operations of the soak: files saved, replaced, edited, split, converted, aborted. */
import assert from 'node:assert';
import { join } from 'node:path';
import {
  convert,
  createWriter,
  editMetadata,
  open,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
  scanPickle,
} from 'safetensors-mmap';
import { aborted, mayFail, mustFail } from './expectations.mjs';
import { namesIn, putFile } from './files.mjs';
import { checkTensors, identityOf, makeMetadata, makeTensors, NAMES } from './models.mjs';
import { letGo, openAnyhow } from './reading.mjs';
import { hostileTorchFile, torchFile } from './torch-file.mjs';

/** Rows of the models that all lanes replace: the same, so that what is mapped stays as long. */
export const SHARED_ROWS = 256;

/** Metadata and one save in twenty that is synced. */
function saveOptions(lane, version, rows) {
  return { metadata: makeMetadata(version, rows), durable: lane.random.chance(0.05) };
}

/** Pieces of a tensor, one after the other. */
async function* piecesOf({ data }) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  for (let at = 0; at < bytes.length; at += 50_000) yield bytes.subarray(at, at + 50_000);
}

/** Puts another version where all lanes read. */
async function replace(lane) {
  const path = lane.sharedModel();
  const version = lane.random.below(500);
  const tensors = await makeTensors(version, SHARED_ROWS);
  const options = saveOptions(lane, version, SHARED_ROWS);
  await saveFile(path, tensors, options);
}

/** Copies one shared model over another, or over itself: by the kernel. */
async function copy(lane) {
  const file = await openAnyhow(lane, lane.sharedModel());
  const { version, rows } = identityOf(file);
  await saveFile(lane.sharedModel(), file, saveOptions(lane, version, rows));
  letGo(lane, file);
}

async function abortedSave(lane) {
  const path = join(lane.folder, 'aborted.safetensors');
  const old = lane.random.below(500);
  const rows = 1024;
  await saveFile(path, await makeTensors(old, 16), saveOptions(lane, old, 16));
  const tensors = await makeTensors(old + 1, rows);
  const isAborted = await aborted(lane.random.below(8), (signal) =>
    saveFile(path, tensors, { ...saveOptions(lane, old + 1, rows), signal }),
  );
  const file = await openAnyhow(lane, path);
  const expected = isAborted ? { version: old, rows: 16 } : { version: old + 1, rows };
  assert.deepStrictEqual(identityOf(file), expected);
  await checkTensors(file, expected);
  letGo(lane, file);
  const left = (await namesIn(lane.folder)).filter((name) => name.endsWith('.tmp'));
  assert.deepStrictEqual(left, []);
}

async function writer(lane) {
  const path = join(lane.folder, 'written.safetensors');
  const rows = 16 + lane.random.below(512);
  const version = lane.random.below(500);
  const tensors = Object.entries(await makeTensors(version, rows));
  const specs = tensors.map(([name, { dtype, shape }]) => [name, { dtype, shape }]);
  const written = await createWriter(path, specs, saveOptions(lane, version, rows));
  const count = lane.random.chance(0.5) ? NAMES.length : lane.random.below(NAMES.length);
  for (const [name, tensor] of tensors.slice(0, count)) {
    await written.write(name, lane.random.chance(0.5) ? tensor.data : piecesOf(tensor));
  }
  if (count < NAMES.length) {
    if (lane.random.chance(0.5)) return written.abort();
    return mustFail(['SAFETENSORS_TENSORS_MISSING'], () => written.close()).then(() =>
      written.abort(),
    );
  }
  await written.close();
  const file = await openAnyhow(lane, path);
  await checkTensors(file, { version, rows });
  letGo(lane, file);
}

async function edit(lane) {
  const changes = { note: 'n'.repeat(lane.random.below(2000)) };
  // Others save to the same path: then what was edited is gone.
  await mayFail(['SAFETENSORS_FILE_CHANGED'], () =>
    editMetadata(lane.sharedModel(), changes, { durable: false, lockTimeout: 100_000 }),
  );
}

async function editInPlace(lane) {
  const path = join(lane.folder, 'edited.safetensors');
  const version = lane.random.below(500);
  await saveFile(path, await makeTensors(version, 32), {
    ...saveOptions(lane, version, 32),
    reserve: 4096,
  });
  const file = await openAnyhow(lane, path);
  const note = 'n'.repeat(lane.random.below(2000));
  await editMetadata(path, { note }, { inPlace: true, durable: false });
  const edited = await openAnyhow(lane, path);
  assert.strictEqual(edited.metadata.get('note'), note);
  await checkTensors(edited, { version, rows: 32 });
  letGo(lane, edited);
  if (lane.random.chance(0.7)) file.close();
}

function openFolder(lane, folder) {
  const isSync = !lane.isMain && lane.random.chance(0.7);
  return isSync ? safeOpen(folder) : safeOpenAsync(folder);
}

async function checkpoint(lane) {
  const folder = join(lane.folder, 'checkpoint');
  const rows = 64 + lane.random.below(256);
  const version = lane.random.below(500);
  const options = {
    ...saveOptions(lane, version, rows),
    maxShardSize: lane.random.from('100KB', '1MB'),
  };
  await saveCheckpoint(folder, await makeTensors(version, rows), options);
  const opened = await openFolder(lane, folder);
  assert.deepStrictEqual((await opened.verify()).problems, []);
  await checkTensors(opened, { version, rows });
  const target = join(lane.folder, 'resharded');
  const isEnded = await aborted(lane.random.from(2, 20, 60_000), (signal) =>
    convert(folder, target, { maxShardSize: '200KB', durable: false, overwrite: true, signal }),
  );
  if (!isEnded) {
    const resharded = await openFolder(lane, target);
    await checkTensors(resharded, { version, rows });
    resharded.close({ detach: lane.random.chance(0.5) });
  }
  if (lane.random.chance(0.7)) opened.close();
}

async function convertTorch(lane) {
  const source = join(lane.folder, 'model.pt');
  const target = join(lane.folder, 'converted.safetensors');
  const rows = 16 + lane.random.below(1024);
  const version = lane.random.below(500);
  await putFile(source, torchFile(await makeTensors(version, rows)));
  const options = { ...saveOptions(lane, version, rows), dtype: lane.random.from('F16', 'F32') };
  const isAborted = await aborted(lane.random.from(1, 10, 60_000, 60_000), (signal) =>
    convert(source, target, { ...options, overwrite: true, signal }),
  );
  if (!isAborted) {
    const file = await openAnyhow(lane, target);
    await checkTensors(file, { version, rows });
    letGo(lane, file);
  }
  // Files of torch are parsed on the calling thread.
  if (lane.isMain) return;
  assert.strictEqual((await scanPickle(source)).verdict, 'safe');
  const opened = await open(source);
  await checkTensors(opened, { version, rows });
  if (lane.random.chance(0.6)) opened.close({ detach: lane.random.chance(0.5) });
}

async function refuseHostile(lane) {
  const source = join(lane.folder, 'hostile.pt');
  await putFile(source, hostileTorchFile());
  if (!lane.isMain) assert.strictEqual((await scanPickle(source)).verdict, 'suspicious');
  const target = join(lane.folder, 'never.safetensors');
  await mustFail(['SAFETENSORS_FORBIDDEN_GLOBAL'], () => convert(source, target));
  await mustFail(['ENOENT'], () => openAnyhow(lane, target));
}

export const WRITING = {
  replace,
  copy,
  abortedSave,
  writer,
  edit,
  editInPlace,
  checkpoint,
  convertTorch,
  refuseHostile,
};
