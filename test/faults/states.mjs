// Records the contents of a folder, and restores them.
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** Everything below a folder by its path: the bytes of files, the text of links, null for folders. */
export function stateOf(folder, prefix = '', state = new Map()) {
  for (const name of readdirSync(join(folder, prefix)).sort()) {
    const path = join(prefix, name);
    const stats = lstatSync(join(folder, path));
    if (stats.isDirectory()) {
      state.set(path, null);
      stateOf(folder, path, state);
    } else {
      const isLink = stats.isSymbolicLink();
      state.set(path, isLink ? readlinkSync(join(folder, path)) : readFileSync(join(folder, path)));
    }
  }
  return state;
}

function isSame(one, other) {
  return Buffer.isBuffer(one) && Buffer.isBuffer(other) ? one.equals(other) : one === other;
}

/** The content of a file; of the record of a repository, all but the modification times in it. */
function withoutTimes(path, content) {
  if (!path.endsWith('/.safetensors-mmap-repository.json')) return content;
  return content.toString().replace(/"mtimeMs":[\d.]+/g, '"mtimeMs":0');
}

/** How two states differ, as texts; empty when they are the same. */
export function differences(found, expected) {
  const texts = [];
  for (const [path, content] of expected) {
    if (!found.has(path)) texts.push(`${path} is gone`);
    else if (!isSame(withoutTimes(path, found.get(path)), withoutTimes(path, content))) {
      texts.push(`${path} has other bytes`);
    }
  }
  for (const path of found.keys()) if (!expected.has(path)) texts.push(`${path} is left`);
  return texts;
}

/** Restores the folder. */
export function putBack(folder, state) {
  const found = stateOf(folder);
  for (const path of found.keys()) {
    if (!state.has(path)) rmSync(join(folder, path), { recursive: true, force: true });
  }
  for (const [path, content] of state) {
    if (found.has(path) && isSame(found.get(path), content)) continue;
    const full = join(folder, path);
    rmSync(full, { recursive: true, force: true });
    mkdirSync(dirname(full), { recursive: true });
    if (content === null) mkdirSync(full, { recursive: true });
    else if (typeof content === 'string') symlinkSync(content, full);
    else writeFileSync(full, content);
  }
}
