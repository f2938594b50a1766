// Opens files and checkpoints, and prints which synchronous calls of `node:fs` that makes, each once.
// Arguments: FILE FOLDER INDEX
import fs from 'node:fs';
import { safeOpen, safeOpenAsync } from '../../../lib/index.js';

const [file, folder, index] = process.argv.slice(2);

/** The first file loads the addon. */
safeOpen(file).close();

const calls = new Set();
for (const [name, call] of Object.entries(fs)) {
  if (!name.endsWith('Sync')) continue;
  const noted = (...args) => {
    calls.add(name);
    return call(...args);
  };
  fs[name] = Object.assign(noted, call);
}

/** The calls that `action` makes. */
async function callsOf(action) {
  calls.clear();
  const opened = await action();
  const found = [...calls];
  opened?.close();
  return found;
}

const found = {
  safeOpen: await callsOf(() => safeOpen(file)),
  safeOpenAsync: await callsOf(() => safeOpenAsync(file)),
  'safeOpenAsync, a folder': await callsOf(() => safeOpenAsync(folder)),
  'safeOpenAsync, an index': await callsOf(() => safeOpenAsync(index)),
  'safeOpenAsync, a repository': await callsOf(() => safeOpenAsync('org/name')),
};
// Node 22 and newer read a module that is imported on first use with calls of this thread.
const first = await safeOpenAsync(folder);
await first.verify();
first.close();
const checkpoint = await safeOpenAsync(folder);
found['all tensors'] = await callsOf(async () => {
  for (const [, tensor] of checkpoint) tensor.bytes;
  const { problems } = await checkpoint.verify();
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return checkpoint;
});
console.log(JSON.stringify(found));
