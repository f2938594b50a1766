/** The sources and tests of a room. */
import { existsSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Headers, and the JSON reader they need. */
const HEADER = /^src\/(?:format\/(?:header|usual-header|tensor-columns|dtype\.)|json\/)/;

/** All rooms, as the nightly workflow takes them. */
export function rooms() {
  const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ parentPath, name }) => relative(join(ROOT, 'src'), join(parentPath, name)))
    .filter((folder) => existsSync(join(ROOT, 'test', folder)));
  return ['header', ...folders.filter((folder) => sourcesOf(folder).length > 0).sort()];
}

const foldersOf = (room) => (room === 'header' ? ['format', 'json'] : [room]);

function filesOf(folder, ending) {
  const path = join(ROOT, folder);
  if (!existsSync(path)) throw new Error(`there is no folder ${folder}`);
  return readdirSync(path)
    .filter((name) => name.endsWith(ending))
    .map((name) => `${folder}/${name}`);
}

export function sourcesOf(room) {
  const files = foldersOf(room).flatMap((folder) => filesOf(`src/${folder}`, '.ts'));
  return room === 'header' ? files.filter((path) => HEADER.test(path)) : files;
}

export function testsOf(room) {
  return foldersOf(room).flatMap((folder) => filesOf(`test/${folder}`, '.test.ts'));
}
