/** Values converted to and from float32. */
import { join } from 'node:path';
import { CONTENDERS, pick } from '../contenders.mjs';
import { formatDuration, median } from '../figures.mjs';
import { tensor, writeModel } from '../models.mjs';

/** Values per tensor: 128 MB of output, more than caches hold. */
const VALUES = 2 ** 25;
/** Converts F32 to F32, which is a memcpy, and these dtypes. */
const MEMCPY = 'F32';
const F8 = ['F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'];
const HALVES = ['from F32 to BF16', 'from F32 to F16'];
const COMPARED = ['BF16', 'F16', 'F8_E4M3', 'F8_E5M2', ...HALVES];
/** Within each process; the first is not counted. */
const CASTS_ROUNDS = 15;

/** Conversion to and from float32, next to a memcpy of the float32, a loop in JavaScript, and torch. */
export const casts = {
  name: 'convert',
  prepare: async ({ folder, signal, size }) => {
    const path = join(folder, 'convert.safetensors');
    const dtypes = [MEMCPY, 'BF16', 'F16', ...F8];
    const tensors = dtypes.map((dtype) => tensor(dtype, dtype, size(VALUES, 2 ** 15)));
    await writeModel(path, tensors, signal);
    return { path };
  },
  legs: ({ rounds }, { path }) => {
    const base = { contenders: pick('casts castsTorch'), compared: COMPARED };
    return { convert: { ...base, path, args: [`${CASTS_ROUNDS}`], rounds } };
  },
  values: ({ convert }, { size }) => {
    const ours = CONTENDERS.casts;
    // The median of ratios within one process: a slow round of the machine hits both.
    const ratio = (name, base = MEMCPY) =>
      convert.median(ours, (line) => median(line[name]) / median(line[base]));
    const timeOf = (name, contender = ours) =>
      convert.median(contender, (line) => median(line[name] ?? []));
    const torch = (name) => timeOf(name, CONTENDERS.castsTorch);
    const toHalf = (name) => timeOf(name) / torch(name);
    const label = (name) => (name === MEMCPY ? 'F32: memcpy of the output' : name);
    const ways = Object.keys(convert.lines(ours)[0] ?? {});
    return {
      ...{ count: size(VALUES, 2 ** 15) / 2 ** 20, bfloat16: ratio('BF16'), float16: ratio('F16') },
      float8: Math.max(...F8.map((dtype) => ratio(dtype))),
      ...{ toBfloat16: toHalf(HALVES[0]), toFloat16: toHalf(HALVES[1]) },
      threads: ratio('BF16, one thread', 'BF16, two threads'),
      loop: ratio('JavaScript over pairs', 'BF16'),
      rows: ways.map((name) => [
        label(name),
        ...[timeOf(name), torch(name)].map(formatDuration),
        ratio(name).toFixed(2),
      ]),
    };
  },
  rows: (_, { rows }) => [['what', 'time', 'torch', 'ratio to memcpy'], ...rows],
  page: `
    ## Conversion to and from float32, {count} Mi values into an array used again
    - {reasons}
    - JavaScript converts BF16; the rows with one and two threads go into shared memory
    - torch on one thread
    > BF16 to float32 against a memcpy | at most 0.6 × | $bfloat16
    > F16 to float32 against a memcpy | at most 1 × | $float16
    > F8 to float32 against a memcpy | at most 1 × | $float8
    > float32 to BF16 against torch | at most 1.5 × | $toBfloat16
    > float32 to F16 against torch | at most 1.5 × | $toFloat16
    > BF16 to float32, two threads: faster than one | at least 1.4 × | $threads
    > BF16 to float32: faster than JavaScript | at least 3 × | $loop`,
};
