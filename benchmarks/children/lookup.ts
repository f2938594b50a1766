/** Asks for every tensor of a file and its bytes, twice. Argument: FILE */
import { safeOpen } from 'safetensors-mmap';
import { median } from '../median.js';

/** The line this child prints: medians in µs per tensor. */
export interface LookupResult {
  readonly first: number;
  readonly repeated: number;
}

const file = safeOpen(process.argv[2] ?? '');
const names = file.keys();
const held: Uint8Array[] = [];

/** Tensors per reading of the clock, which takes a part of a microsecond itself. */
const BATCH = 100;

function pass(): number {
  const times: number[] = [];
  for (let begin = 0; begin + BATCH <= names.length; begin += BATCH) {
    const start = performance.now();
    for (let index = begin; index < begin + BATCH; index++) {
      held[index] = file.getTensor(names[index] as string).bytes;
    }
    times.push(((performance.now() - start) * 1e3) / BATCH);
  }
  return median(times);
}

const first = pass();
// The second time through, the loop is compiled; the third is what a program sees from then on.
pass();
const result: LookupResult = { first, repeated: pass() };
console.log(JSON.stringify(result));
