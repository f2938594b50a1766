// Saves a checkpoint, and kills itself before the n-th call that changes a name in the folder; or goes on to the
// end, with a copy of the folder before each call, where the path of a folder for them is given instead of n.
import { copyAtCalls, killAtCall } from './killed-at-call.mjs';

const [folder, value, options, last, links] = process.argv.slice(2);
if (Number(last) > 0) killAtCall(last, links);
else copyAtCalls(folder, last, links);

const { saveCheckpoint } = await import('../../../../lib/index.js');
const tensors = ['a', 'b', 'c', 'd'].map((name) => [
  name,
  { dtype: 'F32', shape: [2], data: new Float32Array(2).fill(Number(value)) },
]);
tensors.push([`only-${value}`, { dtype: 'U8', shape: [0], data: new Uint8Array(0) }]);
await saveCheckpoint(folder, tensors, JSON.parse(options));
