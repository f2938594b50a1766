/**
 * Times conversions to float32 into arrays that are used again, one after the other in every round.
 * Argument: a file with tensors of the same number of values, each named like its dtype; F32, whose
 * conversion is a memcpy of the output, and BF16 are among them.
 */
import { safeOpen } from 'safetensors-mmap';
import { median } from '../median.js';

/** The line this child prints: median times in ms by what was done. */
export type ConvertResult = Readonly<Record<string, number>>;

const ROUNDS = 15;

const file = safeOpen(process.argv[2] ?? '');
const bfloat16 = file.getTensor('BF16');
const into = new Float32Array(bfloat16.elementCount).fill(1);
const shared = new Float32Array(new SharedArrayBuffer(into.byteLength)).fill(1);

/** The loops that one would write, over elements and over pairs of them. */
function loopOverElements(elements: Uint16Array, patterns: Uint32Array): void {
  for (let i = 0; i < elements.length; i++) patterns[i] = (elements[i] as number) << 16;
}

function loopOverPairs(pairs: Int32Array, patterns: Int32Array): void {
  for (let i = 0, next = 0; i < pairs.length; i++, next += 2) {
    const pair = pairs[i] as number;
    patterns[next] = pair << 16;
    patterns[next + 1] = pair & 0xffff0000;
  }
}

const cases = new Map<string, () => unknown>();
for (const [name, tensor] of file) cases.set(name, () => tensor.toFloat32({ into }));
const elements = bfloat16.data as Uint16Array;
const pairs = bfloat16.view(Int32Array);
cases.set('JavaScript over elements', () =>
  loopOverElements(elements, new Uint32Array(into.buffer)),
);
cases.set('JavaScript over pairs', () => loopOverPairs(pairs, new Int32Array(into.buffer)));
for (const name of ['F32', 'BF16', 'F8_E4M3']) {
  const tensor = file.getTensor(name);
  cases.set(`${name}, one thread`, () => tensor.toFloat32({ into: shared }));
  cases.set(`${name}, two threads`, () => tensor.toFloat32Async({ into: shared }));
}
cases.set('BF16, two threads, ordinary array', () => bfloat16.toFloat32Async({ into }));
cases.set('BF16, new array', () => bfloat16.toFloat32());
cases.set('BF16, two threads, new array', () => bfloat16.toFloat32Async());

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
