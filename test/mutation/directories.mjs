/** The sources and tests of a directory. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * All directories, as the nightly workflow takes them: folders of `src`, and `header` with the JSON reader that it
 * needs.
 */
export function directories() {
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

const foldersOf = (directory) => (directory === 'header' ? ['header', 'header/json'] : [directory]);

function filesOf(folder, ending) {
  const path = join(ROOT, folder);
  if (!existsSync(path)) throw new Error(`there is no folder ${folder}`);
  return readdirSync(path)
    .filter((name) => name.endsWith(ending))
    .map((name) => `${folder}/${name}`);
}

export function sourcesOf(directory) {
  return foldersOf(directory).flatMap((folder) => filesOf(`src/${folder}`, '.ts'));
}

export function testsOf(directory) {
  const folders = foldersOf(directory).map(testFolderOf);
  return folders.flatMap((folder) => filesOf(`test/${folder}`, '.test.ts'));
}
