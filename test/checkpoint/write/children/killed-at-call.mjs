// Kills this process before the n-th call that changes a name in a folder. Links can be refused, as some
// file systems do. Import the package after `killAtCall`.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

let calls = 0;

export function killAtCall(last, links) {
  const count =
    (call) =>
    (...args) => {
      if (++calls === Number(last)) process.kill(process.pid, 'SIGKILL');
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

export function callsSoFar() {
  return calls;
}
