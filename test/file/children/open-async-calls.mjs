// Opens files and checkpoints, and prints which synchronous calls of `node:fs` that makes, each once.
// Arguments: FILE FOLDER INDEX
import fs from 'node:fs';
import { openCheckpointAsync, safeOpen, safeOpenAsync } from '../../../lib/index.js';

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
  'safeOpenAsync, a folder': await callsOf(() => safeOpenAsync(folder).catch(() => {})),
  'openCheckpointAsync, a file': await callsOf(() => openCheckpointAsync(file)),
  'openCheckpointAsync, a folder': await callsOf(() => openCheckpointAsync(folder)),
  'openCheckpointAsync, an index': await callsOf(() => openCheckpointAsync(index)),
  'openCheckpointAsync, a repository': await callsOf(() => openCheckpointAsync('org/name')),
};
// Node 22 and newer read a module that is imported on first use with calls of this thread.
const first = await openCheckpointAsync(folder);
await first.verify();
first.close();
const checkpoint = await openCheckpointAsync(folder);
found['all tensors'] = await callsOf(async () => {
  for (const [, tensor] of checkpoint) tensor.bytes;
  await checkpoint.verify();
  return checkpoint;
});
console.log(JSON.stringify(found));
