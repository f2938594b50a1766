// Saves a checkpoint, and kills itself before the n-th call that changes a name in the folder; prints
// how many calls there were if it comes to the end. Links can be refused, as some file systems do.
import { callsSoFar, killAtCall } from './killed-at-call.mjs';

const [folder, value, options, last, links] = process.argv.slice(2);
killAtCall(last, links);

const { saveCheckpoint } = await import('../../../../lib/index.js');
const tensors = ['a', 'b', 'c', 'd'].map((name) => [
  name,
  { dtype: 'F32', shape: [2], data: new Float32Array(2).fill(Number(value)) },
]);
tensors.push([`only-${value}`, { dtype: 'U8', shape: [0], data: new Uint8Array(0) }]);
await saveCheckpoint(folder, tensors, JSON.parse(options));
console.log(JSON.stringify(callsSoFar()));
