// Changes metadata in place and kills itself before the call with the given number, of those that
// change something; a write has then put half of its bytes. Prints how many calls there were.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [path, last] = process.argv.slice(2);
let calls = -Infinity;

for (const name of ['openSync', 'writev', 'fsync', 'closeSync', 'linkSync', 'rmSync']) {
  const call = fs[name];
  const counted = (...args) => {
    if (calls++ === Number(last)) {
      if (name === 'writev') {
        const [fd, [view], position] = args;
        fs.writeSync(fd, view, 0, view.byteLength >> 1, position);
      }
      process.kill(process.pid, 'SIGKILL');
    }
    return call(...args);
  };
  // promisify() looks for what Node has put there.
  fs[name] = Object.defineProperties(counted, Object.getOwnPropertyDescriptors(call));
}
syncBuiltinESMExports();

const { editMetadata } = await import('../../../../lib/index.js');
calls = 0;
await editMetadata(path, { format: 'np', note: 'n'.repeat(40) }, { inPlace: true });
console.log(calls);
