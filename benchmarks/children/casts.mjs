/**
 * Times conversions to and from float32, one after the other in every round. Arguments: METHOD FILE ROUNDS. The file
 * has tensors with the same number of values, each named like its dtype; BF16 is one of them. Prints the ms of every
 * round but the first, which maps pages and compiles the loops, by what was done.
 */
import { fromFloat32, safeOpen } from 'safetensors-mmap';

const [, path, rounds] = process.argv.slice(2);
const file = safeOpen(path);
const bfloat16 = file.getTensor('BF16');
const into = new Float32Array(bfloat16.elementCount).fill(1);
const shared = new Float32Array(new SharedArrayBuffer(into.byteLength)).fill(1);

/** The fastest loop that one would write: two BF16 patterns in each element of `pairs`. */
function loopOverPairs(pairs, patterns) {
  for (let i = 0, next = 0; i < pairs.length; i++, next += 2) {
    const pair = pairs[i];
    patterns[next] = pair << 16;
    patterns[next + 1] = pair & 0xffff0000;
  }
}

const cases = new Map();
for (const [name, tensor] of file) cases.set(name, () => tensor.toFloat32({ into }));
const pairs = bfloat16.view(Int32Array, { reinterpret: true });
cases.set('JavaScript over pairs', () => loopOverPairs(pairs, new Int32Array(into.buffer)));
cases.set('BF16, new array', () => bfloat16.toFloat32());
cases.set('BF16, one thread', () => bfloat16.toFloat32({ into: shared }));
cases.set('BF16, two threads', () => bfloat16.toFloat32Async({ into: shared }));

const floats = bfloat16.toFloat32();
const halves = new Uint16Array(floats.length).fill(1);
for (const dtype of ['BF16', 'F16']) {
  cases.set(`from F32 to ${dtype}`, () => fromFloat32(floats, dtype, { into: halves }));
}

const times = Object.fromEntries(Array.from(cases.keys(), (name) => [name, []]));
for (let round = 0; round < rounds; round++) {
  for (const [name, run] of cases) {
    const start = performance.now();
    await run();
    const elapsed = performance.now() - start;
    if (round > 0) times[name].push(elapsed);
  }
}
console.log(JSON.stringify(times));
