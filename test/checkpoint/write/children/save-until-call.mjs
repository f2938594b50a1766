// Saves a checkpoint, and kills itself before the n-th call that changes a name in the folder; prints
// how many calls there were if it comes to the end. Links can be refused, as some file systems do.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [folder, value, options, last, links] = process.argv.slice(2);
let calls = 0;

function count(call) {
  return (...args) => {
    if (++calls === Number(last)) process.kill(process.pid, 'SIGKILL');
    return call(...args);
  };
}

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

const { saveCheckpoint } = await import('../../../../lib/index.js');
const tensors = ['a', 'b', 'c', 'd'].map((name) => [
  name,
  { dtype: 'F32', shape: [2], data: new Float32Array(2).fill(Number(value)) },
]);
tensors.push([`only-${value}`, { dtype: 'U8', shape: [0], data: new Uint8Array(0) }]);
await saveCheckpoint(folder, tensors, JSON.parse(options));
console.log(JSON.stringify(calls));
