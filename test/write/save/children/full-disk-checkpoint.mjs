// Saves a checkpoint for which there is no room, over one that is there; prints how that ends: the
// error's facts, and whether the folder is as it was. The parent has made the disk, or the limit on
// the size of files, small.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { saveCheckpoint } from '../../../../lib/index.js';

const [folder, size] = process.argv.slice(2);

function tensorsOf(byteLength) {
  const data = new Uint8Array(byteLength);
  return ['a', 'b', 'c'].map((name) => [name, { dtype: 'U8', shape: [byteLength], data }]);
}

function files() {
  return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'latin1')]);
}

await saveCheckpoint(folder, tensorsOf(1000), { maxShardSize: 1000 });
const before = JSON.stringify(files());
const byteLength = Math.floor(Number(size) / 3);
try {
  await saveCheckpoint(folder, tensorsOf(byteLength), { maxShardSize: byteLength });
  console.log('succeeded');
} catch ({ code, path }) {
  const isSame = JSON.stringify(files()) === before;
  console.log(JSON.stringify({ code, path: path.slice(folder.length + 1), isSame }));
}
