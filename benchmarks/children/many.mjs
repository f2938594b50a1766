/**
 * Handles a hundred thousand small tensors. Arguments: METHOD FILE TARGET VERIFIED, the last with digests. Prints the
 * ms of the first call in a fresh process (`elapsed`), the longest time for which the event loop did not run meanwhile
 * (`turn`), and the growth of resident memory (`extraMemory`). `many.py` does the same without the event loop.
 */
import {
  dequantize,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
  serialize,
  verify,
} from 'safetensors-mmap';
import { exposeCollector, forgetPeak, peakMemory } from './memory.mjs';

const [method, path, target, verified] = process.argv.slice(2);

/** New tensors, as a program computes them. */
async function newTensors() {
  const file = safeOpen(path);
  const tensors = new Map();
  for (const { name, dtype, shape } of await file.tensors()) {
    tensors.set(name, { dtype, shape, data: file.getTensor(name).data.slice() });
  }
  file.close();
  return tensors;
}

/** What is ready before the clock starts, and the call that is measured. */
const METHODS = {
  serialize: [newTensors, (tensors) => serialize(tensors)],
  save: [newTensors, (tensors) => saveFile(target, tensors, { durable: false })],
  'save-checkpoint': [
    newTensors,
    (tensors) => saveCheckpoint(`${target}.folder`, tensors, { durable: false }),
  ],
  dequantize: [() => safeOpen(path), (file) => dequantize(file)],
  keys: [() => safeOpenAsync(path), (file) => file.keys()],
  tensors: [() => safeOpenAsync(path), (file) => file.tensors()],
  // The first call loads its code.
  verify: [() => verify(verified), () => verify(verified)],
};

/** Measures how long the event loop does not run. */
function watchTurns() {
  let [longest, last, isOn] = [0, performance.now(), true];
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (isOn) setImmediate(look);
  };
  setImmediate(look);
  return () => {
    look();
    isOn = false;
    return longest;
  };
}

const [prepare, run] = METHODS[method];
const given = await prepare();
// Young objects of what came before would be collected during the call.
exposeCollector()();
forgetPeak();
const before = peakMemory();
const longestTurn = watchTurns();
const start = performance.now();
const result = await run(given);
const elapsed = performance.now() - start;
const turn = longestTurn();
if (result?.problems?.length > 0) throw result.problems[0];
console.log(JSON.stringify({ elapsed, turn, extraMemory: peakMemory() - before }));
