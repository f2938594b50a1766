/**
 * Times conversions to float32, one after the other in every round. Arguments: METHOD FILE, a file
 * of tensors with the same number of values, each named like its dtype; BF16 is one of them.
 */
import { safeOpen } from 'safetensors-mmap';
import { median } from '../figures.js';

/** The line this child prints: median times in ms by what was done. */
export type ConvertResult = Readonly<Record<string, number>>;

const ROUNDS = 15;

const file = safeOpen(process.argv[3] ?? '');
const bfloat16 = file.getTensor('BF16');
const into = new Float32Array(bfloat16.elementCount).fill(1);
const shared = new Float32Array(new SharedArrayBuffer(into.byteLength)).fill(1);

/** The fastest loop that one would write: two BF16 patterns in each element of `pairs`. */
function loopOverPairs(pairs: Int32Array, patterns: Int32Array): void {
  for (let i = 0, next = 0; i < pairs.length; i++, next += 2) {
    const pair = pairs[i] as number;
    patterns[next] = pair << 16;
    patterns[next + 1] = pair & 0xffff0000;
  }
}

const cases = new Map<string, () => unknown>();
for (const [name, tensor] of file) cases.set(name, () => tensor.toFloat32({ into }));
const pairs = bfloat16.view(Int32Array, { reinterpret: true });
cases.set('JavaScript over pairs', () => loopOverPairs(pairs, new Int32Array(into.buffer)));
cases.set('BF16, new array', () => bfloat16.toFloat32());
cases.set('BF16, one thread', () => bfloat16.toFloat32({ into: shared }));
cases.set('BF16, two threads', () => bfloat16.toFloat32Async({ into: shared }));

const times = new Map<string, number[]>();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, run] of cases) {
    const start = performance.now();
    await run();
    const elapsed = performance.now() - start;
    times.set(name, [...(times.get(name) ?? []), elapsed]);
  }
}
// The first round maps pages and compiles the loops.
const medians = Array.from(times, ([name, all]) => [name, median(all.slice(1))] as const);
const result: ConvertResult = Object.fromEntries(medians);
console.log(JSON.stringify(result));
