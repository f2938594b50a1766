/** Reading operations of the soak: files opened, dropped, cut short, streamed, fetched, aborted. */
import assert from 'node:assert';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  download,
  open,
  parse,
  safeOpen,
  safeOpenAsync,
  saveFile,
  serialize,
} from 'safetensors-mmap';
import { aborted, mayFail, mustFail } from './expectations.mjs';
import { cutFile, putFile } from './files.mjs';
import {
  COLUMNS,
  checkTensor,
  checkTensors,
  checkValues,
  identityOf,
  makeMetadata,
  makeTensors,
  NAMES,
} from './models.mjs';

const CHANGED = ['SAFETENSORS_FILE_CHANGED'];

// A handle asks the system at most once per millisecond whether its file has changed.
const LOOK_AGAIN_MS = 3;

/** A model of the lane's own, which no other lane touches. */
async function ownModel(lane, rows, name = 'own.safetensors') {
  const version = lane.random.below(500);
  const path = join(lane.folder, name);
  const metadata = makeMetadata(version, rows);
  await saveFile(path, await makeTensors(version, rows), { metadata, durable: false });
  return { path, version, rows };
}

/** Opens a file in one of all ways; the main thread, whose event loop is watched, in those that do not stall it. */
export function openAnyhow(lane, path, storage = lane.random.from('mmap', 'mmap', 'read')) {
  const isSync = !lane.isMain && lane.random.chance(0.7);
  return isSync ? safeOpen(path, { storage }) : safeOpenAsync(path, { storage });
}

/** Closes a file in one of all ways, or drops it: then the collector closes it. */
export function letGo(lane, file) {
  const end = lane.random.below(3);
  if (end < 2) file.close({ detach: end === 1 });
}

/** The same, but a tensor of it stays for a while. */
function letGoButKeep(lane, file) {
  lane.keep({ tensor: file.getTensor(NAMES[0]), ...identityOf(file) });
  if (lane.random.chance(0.5)) file.close();
}

async function openOne(lane) {
  const file = await openAnyhow(lane, lane.sharedModel());
  const { version, rows } = identityOf(file);
  const row = lane.random.below(rows);
  const slice = file.getSlice('embed.weight', row);
  await checkTensor(slice, 'embed.weight', version, row * COLUMNS);
  if (lane.random.chance(0.5)) await checkTensors(file, { version, rows });
  if (lane.random.chance(0.5)) letGo(lane, file);
  else letGoButKeep(lane, file);
}

/** Tensors of files that were closed or dropped long ago still have their values. */
async function lookAtKept(lane) {
  const kept = lane.random.from(...lane.kept);
  if (kept !== undefined) await checkTensor(kept.tensor, NAMES[0], kept.version);
}

async function writeToPages(lane) {
  const path = lane.sharedModel();
  const file = await openAnyhow(lane, path, 'mmap');
  const name = lane.random.from(...NAMES);
  const { bytes } = file.getTensor(name);
  bytes.fill(255);
  assert(bytes.every((byte) => byte === 255));
  const other = await openAnyhow(lane, path);
  await checkTensor(other.getTensor(name), name, identityOf(other).version);
  other.close({ detach: true });
  letGo(lane, file);
}

/** The missing part reads as zeros, and the next call throws. */
async function truncatedError(lane) {
  const { path, version, rows } = await ownModel(lane, 64 + lane.random.below(256));
  const file = await openAnyhow(lane, path);
  const name = lane.random.from(...NAMES);
  const { bytes } = file.getTensor(name);
  await cutFile(path, lane.random.below(file.byteLength()));
  const { data } = (await makeTensors(version, rows))[name];
  const expected = new Uint8Array(data.buffer);
  const isMapped = file.storage === 'mmap';
  for (const [i, byte] of bytes.entries()) {
    assert(byte === expected[i] || (isMapped && byte === 0), `byte ${i} of ${name}: ${byte}`);
  }
  await sleep(LOOK_AGAIN_MS);
  await mustFail(CHANGED, () => file.getTensor(name));
  assert.strictEqual(file.ok, false);
  if (lane.random.chance(0.7)) file.close({ detach: lane.random.chance(0.5) });
}

async function cutShortWhileUsed(lane) {
  const { path, version } = await ownModel(lane, 1024);
  const file = await openAnyhow(lane, path);
  const work = lane.random.from(
    () => file.getTensor('embed.weight').toFloat32Async(),
    async () => (await file.readTensors(['embed.weight'])).get('embed.weight').data,
    async () => (await file.getTensor('embed.weight').takeAsync([0, 1, 2])).data,
  );
  const [values] = await Promise.all([
    mayFail(CHANGED, work),
    cutFile(path, lane.random.below(4096)),
  ]);
  if (values !== undefined) await checkValues(values, 'embed.weight', version);
  if (lane.random.chance(0.7)) file.close();
}

async function overwritten(lane) {
  const { path, rows, version } = await ownModel(lane, 64);
  const file = await openAnyhow(lane, path);
  await checkTensor(file.getTensor('raw.bytes'), 'raw.bytes', version);
  const metadata = makeMetadata(version + 1, rows + 1);
  await putFile(path, serialize(await makeTensors(version + 1, rows + 1), { metadata }));
  await sleep(LOOK_AGAIN_MS);
  await mustFail(CHANGED, () => file.getTensor('raw.bytes'));
  if (lane.random.chance(0.7)) file.close();
  await checkTensors(await openAnyhow(lane, path), { version: version + 1, rows: rows + 1 });
}

async function stream(lane) {
  const file = await openAnyhow(lane, lane.sharedModel());
  const { version } = identityOf(file);
  const prefetchByteLength = lane.random.from(1, 65_536, 2 ** 26);
  const leaveAfter = lane.random.below(NAMES.length + 2);
  let count = 0;
  const isAborted = lane.random.chance(0.4);
  await aborted(isAborted ? lane.random.below(4) : 60_000, async (signal) => {
    for await (const [name, tensor] of file.stream({ prefetchByteLength, signal })) {
      await checkTensor(tensor, name, version);
      if (++count === leaveAfter) break;
    }
  });
  if (!isAborted) assert.strictEqual(count, Math.min(leaveAfter || NAMES.length, NAMES.length));
  letGo(lane, file);
}

async function loadAndConvert(lane) {
  const file = await openAnyhow(lane, lane.sharedModel());
  const { version, rows } = identityOf(file);
  const tensor = file.getTensor('embed.weight');
  const indices = Array.from({ length: 16 }, () => lane.random.below(rows));
  await aborted(lane.random.from(0, 1, 5, 60_000), async (signal) => {
    await file.prefetch(undefined, { signal });
    const taken = await tensor.takeAsync(indices, { signal });
    for (const [i, row] of indices.entries()) {
      await checkTensor(taken.slice(i), 'embed.weight', version, row * COLUMNS);
    }
    await checkValues(await tensor.toFloat32Async({ signal }), 'embed.weight', version);
    await checkTensors(await file.readTensors(undefined, { signal }), { version, rows });
  });
  letGo(lane, file);
}

async function bytesInMemory(lane) {
  const rows = 1 + lane.random.below(64);
  const version = lane.random.below(500);
  const bytes = serialize(await makeTensors(version, rows), {
    metadata: makeMetadata(version, rows),
  });
  await checkTensors(parse(bytes), { version, rows });
  bytes[8 + lane.random.below(8)] = 0;
  const codes = ['SAFETENSORS_INVALID_HEADER_START', 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION'];
  await mustFail(codes, () => parse(bytes));
}

async function badFiles(lane) {
  const path = join(lane.folder, 'bad.safetensors');
  await mustFail(['ENOENT'], () => safeOpenAsync(join(lane.folder, 'none.safetensors')));
  await mustFail(['SAFETENSORS_NOT_A_REGULAR_FILE'], () => openAnyhow(lane, '/dev/null'));
  await putFile(path, 'version https://git-lfs.github.com/spec/v1\n');
  await mustFail(['SAFETENSORS_HEADER_TOO_LARGE'], () => openAnyhow(lane, path));
  const bytes = serialize(await makeTensors(1, 8), { metadata: makeMetadata(1, 8) });
  await putFile(path, bytes.subarray(0, bytes.length - 1 - lane.random.below(64)));
  await mustFail(['SAFETENSORS_METADATA_INCOMPLETE_BUFFER'], () => openAnyhow(lane, path));
}

async function fetchTensors(lane) {
  const name = lane.random.from('small', 'middle', 'middle', 'changing');
  const codes = name === 'changing' ? CHANGED : [];
  await aborted(
    lane.random.from(1, 10, 60_000, 60_000),
    async (signal) => {
      const checkpoint = await open(lane.url(name), { signal });
      const { version, rows } = identityOf(checkpoint);
      const row = lane.random.below(rows);
      const slice = await checkpoint.getSlice('embed.weight', row, { signal });
      await checkTensor(slice, 'embed.weight', version, row * COLUMNS);
      const tensors = await checkpoint.readTensors(undefined, { signal });
      await checkTensors(tensors, { version, rows });
      if (lane.random.chance(0.7)) checkpoint.close();
    },
    codes,
  );
}

async function downloadFile(lane) {
  const name = lane.random.from('small', 'middle', 'large', 'changing');
  const codes = name === 'changing' ? CHANGED : [];
  const path = join(lane.folder, `${name}-downloaded.safetensors`);
  const ms = lane.random.from(5, 50, 60_000, 60_000);
  const isEnded = await aborted(
    ms,
    (signal) =>
      download(lane.url(name), path, { signal, overwrite: true, durable: lane.random.chance(0.1) }),
    codes,
  );
  if (isEnded) return;
  const file = await openAnyhow(lane, path);
  await checkTensors(file, identityOf(file));
  letGo(lane, file);
}

export const READING = {
  open: openOne,
  lookAtKept,
  writeToPages,
  truncatedError,
  cutShortWhileUsed,
  overwritten,
  stream,
  loadAndConvert,
  bytesInMemory,
  badFiles,
  fetchTensors,
  downloadFile,
};
