// Saves to a disk, or under a limit on the size of files, that has no room for it, and prints the error's facts and
// the folder's contents afterwards.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { saveFile } from '../../../../lib/index.js';

const [folder, size] = process.argv.slice(2);
const path = join(folder, 'model');
writeFileSync(path, 'old');

const length = Number(size);
let wasAsked = false;
const data = () => {
  wasAsked = true;
  return new Uint8Array(length);
};
const shape = [length];

const ends = {};
for (const [name, save] of Object.entries({
  stream: () => saveFile(path, { x: { dtype: 'U8', shape, data } }),
  memory: () => saveFile(path, { x: { dtype: 'U8', shape, data: new Uint8Array(length) } }),
})) {
  const { code, path: label } = await save().catch((error) => error);
  const old = readFileSync(path, 'utf8');
  ends[name] = { code, isTarget: label === path, files: readdirSync(folder), old, wasAsked };
}
console.log(JSON.stringify(ends));
