/**
 * Makes every kind of call on a checkpoint of more shards than the process has descriptors; prints the calls that fail,
 * with their errors.
 */
import { deepEqual, equal, throws } from 'node:assert/strict';
import process from 'node:process';
import { loadFile, open, safeOpen, safeOpenAsync, verify } from '../../../../lib/index.js';
import { compare } from '../../../../lib/inspect.js';

const [, , folder, storage] = process.argv;
const options = { storage };
const COUNT = 500;
const names = Array.from({ length: COUNT }, (_, i) => `t${i}`);
const failed = {};

/** Runs a call on a new handle, which is closed at its end. */
async function run(name, work, opening = (path) => safeOpen(path, options)) {
  let checkpoint;
  try {
    checkpoint = await opening(folder);
    await work(checkpoint);
  } catch (error) {
    failed[name] = `${error.code}: ${error.message}`.slice(0, 300);
  } finally {
    checkpoint?.close();
  }
}

await run('keys', (one) => deepEqual(new Set(one.keys()), new Set(names)));
await run('has', (one) =>
  equal(
    names.every((name) => one.has(name)),
    true,
  ),
);
await run('info', (one) => {
  for (const name of names) deepEqual(one.info(name).shape, [1]);
});
await run('getTensor', (one) => {
  const tensors = names.map((name) => one.getTensor(name));
  deepEqual(
    tensors.map(({ data }) => data[0]),
    names.map((_, i) => i),
  );
});
await run('getTensors', (one) => {
  const tensors = one.getTensors();
  for (const [i, name] of names.entries()) equal(tensors.get(name).data[0], i);
});
await run('iteration', (one) => {
  let count = 0;
  for (const [name, tensor] of one) {
    equal(`t${tensor.data[0]}`, name);
    count++;
  }
  equal(count, COUNT);
});
await run('tensors', async (one) => equal((await one.tensors()).length, COUNT));
await run('headers', async (one) => equal((await one.headers()).length, COUNT));
await run('readTensors', async (one) => {
  const tensors = await one.readTensors(names);
  for (const [i, name] of names.entries()) equal(tensors.get(name).data[0], i);
});
await run('stream', async (one) => {
  let count = 0;
  for await (const [name, tensor] of one.stream()) {
    equal(`t${tensor.data[0]}`, name);
    count++;
  }
  equal(count, COUNT);
});
await run('prefetch', (one) => one.prefetch());
await run('residency', (one) => one.residency());
await run('verify', async (one) => equal((await one.verify()).ok, true));
await run('summary', async (one) => equal((await one.summary()).parameters, COUNT));
await run('compare', async (one) => equal((await compare(one, one)).unchanged, COUNT));
await run('verify of the path', async (one) => equal((await verify(one.path)).ok, true));
await run('loadFile', () => equal(loadFile(folder, options).get('t9').data[0], 9));
await run(
  'safeOpenAsync',
  (one) => equal(one.getTensor('t8').data[0], 8),
  (path) => safeOpenAsync(path, options),
);
await run(
  'open',
  (one) => equal(one.getTensor('t8').data[0], 8),
  (path) => open(path, options),
);
await run('close with detach', (one) => {
  const tensors = names.map((name) => one.getTensor(name));
  deepEqual(
    tensors.map(({ data }) => data[0]),
    names.map((_, i) => i),
  );
  one.close({ detach: true });
  throws(() => tensors[0].data, { code: 'SAFETENSORS_FILE_CLOSED' });
});
process.stdout.write(JSON.stringify(failed));
