// Replaces a file by one that does not fit on the disk, and prints the errors' facts and the folder's contents
// afterwards. The parent has made the disk, or the limit on the size of files, small.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePieces } from '../../../../build/platform/io/write-pieces.js';
import { Transfer } from '../../../../build/work/transfer.js';
import { Replacement } from '../../../../build/write/replacement/replacement.js';

const [folder, size] = process.argv.slice(2);
const byteLength = Number(size);
const path = join(folder, 'model');
writeFileSync(path, 'old');

const writes = [
  { position: 0, byteLength, source: (begin, end) => new Uint8Array(end - begin).fill(1) },
];

async function known() {
  await Replacement.open(path, 'label', { byteLength, durable: true });
}

async function unknown() {
  const replacement = await Replacement.open(path, 'label', { byteLength: 1, durable: true });
  try {
    await writePieces(replacement, writes, new Transfer(byteLength, {}, () => {}));
  } finally {
    replacement.discard();
  }
}

const ends = {};
for (const attempt of [known, unknown]) {
  try {
    await attempt();
    ends[attempt.name] = 'succeeded';
  } catch ({ code, syscall, path, message }) {
    const files = readdirSync(folder);
    ends[attempt.name] = {
      code,
      syscall,
      path,
      message,
      files,
      old: readFileSync(join(folder, 'model'), 'utf8'),
    };
  }
}
console.log(JSON.stringify(ends));
