/** The sources and tests of a room. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** All rooms, as the nightly workflow takes them: folders of `src`, and `header` with the JSON reader that it needs. */
export function rooms() {
  const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ parentPath, name }) => relative(join(ROOT, 'src'), join(parentPath, name)))
    .filter((folder) => folder !== 'header/json');
  return folders.filter((folder) => sourcesOf(folder).length > 0).sort();
}

/** The tests of a folder: those of the folder around it, where it has none of its own. */
function testFolderOf(folder) {
  return existsSync(join(ROOT, 'test', folder)) ? folder : dirname(folder);
}

const foldersOf = (room) => (room === 'header' ? ['header', 'header/json'] : [room]);

function filesOf(folder, ending) {
  const path = join(ROOT, folder);
  if (!existsSync(path)) throw new Error(`there is no folder ${folder}`);
  return readdirSync(path)
    .filter((name) => name.endsWith(ending))
    .map((name) => `${folder}/${name}`);
}

export function sourcesOf(room) {
  return foldersOf(room).flatMap((folder) => filesOf(`src/${folder}`, '.ts'));
}

export function testsOf(room) {
  const folders = foldersOf(room).map(testFolderOf);
  return folders.flatMap((folder) => filesOf(`test/${folder}`, '.test.ts'));
}
