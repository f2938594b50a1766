// Watches a file, and replaces it where the process has a reason to wait. Arguments: close|unref|ref|throw FILE
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { watch } from '../../../../lib/index.js';

const [mode, path] = process.argv.slice(2);

function replace() {
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] = 2;
  writeFileSync(`${path}.new`, bytes);
  renameSync(`${path}.new`, path);
}

const watcher = watch(
  path,
  (_, next) => {
    if (mode === 'throw') throw new Error('of the callback');
    console.log(`saw ${next.getTensor('t').data[0]}`);
    next.close();
    watcher.close();
  },
  { settle: 1 },
);
console.log('watching');
if (mode === 'close') watcher.close();
else if (mode === 'unref') watcher.unref();
else setTimeout(replace, 100);
