// Counts the calls that change a name in a folder. Before the n-th this process kills itself, or before each it
// copies the folder, as a kill would leave it. Links can be refused, as some file systems do. Import the package
// after `killAtCall` or `copyAtCalls`.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

let calls = 0;

export function killAtCall(last, links) {
  beforeCalls((call) => {
    if (call === Number(last)) process.kill(process.pid, 'SIGKILL');
  }, links);
}

/** Two names of one file are that in the copies, `<copies>/1`, `<copies>/2` and so on. */
export function copyAtCalls(folder, copies, links) {
  beforeCalls((call) => execFileSync('cp', ['-a', folder, join(copies, `${call}`)]), links);
}

function beforeCalls(use, links) {
  const count =
    (call) =>
    (...args) => {
      use(++calls);
      return call(...args);
    };
  for (const name of ['rename', 'link', 'unlink', 'rm']) {
    fs.promises[name] = count(fs.promises[name]);
  }
  fs.rename = count(fs.rename);
  if (links === 'refused') {
    fs.promises.link = async () => {
      throw Object.assign(new Error('no links here'), { code: 'EPERM' });
    };
  }
  syncBuiltinESMExports();
}
