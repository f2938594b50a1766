/** Values: conversion to float32, rows of a table. */
import { join } from 'node:path';
import { ours } from '../contenders.mjs';
import { formatDuration, formatRatio, median } from '../figures.mjs';
import { Measured, tableOf } from '../measure.mjs';
import { tensor, writeModel } from '../models.mjs';
import { targetsOf } from '../targets.mjs';

/** Values per tensor: 128 MB of output, more than caches hold. */
const VALUES = 2 ** 25;
/** What is converted to F32, which takes nothing but a memcpy, and from these dtypes. */
const MEMCPY = 'F32';
const F8 = ['F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'];
const CONVERT = ours('safetensors-mmap', 'casts.mjs', '-');
/** Within each process; the first is not counted. */
const CASTS_ROUNDS = 15;

/** Conversion to float32, beside a memcpy of the output and a loop in JavaScript. */
export const casts = {
  name: 'convert',
  prepare: async ({ folder, signal, size }) => {
    const path = join(folder, 'convert.safetensors');
    const count = size(VALUES, 2 ** 15);
    const tensors = [MEMCPY, 'BF16', 'F16', ...F8].map((dtype) => tensor(dtype, dtype, count));
    await writeModel(path, tensors, signal);
    return { path, count };
  },
  legs: ({ rounds }, { path }) => ({
    convert: {
      contenders: [CONVERT],
      path,
      args: [`${CASTS_ROUNDS}`],
      rounds,
      figures: ['BF16', 'F16', 'F8_E4M3', 'F8_E5M2'],
    },
  }),
  report: ({ convert }, _, { count }) => {
    const lines = convert
      .lines(CONVERT)
      .map((line) =>
        Object.fromEntries(Object.entries(line).map(([name, times]) => [name, median(times)])),
      );
    const time = (name) => median(lines.map((line) => line[name]));
    // The median of ratios within one process: a slow round of the machine hits both.
    const ratio = (name, base = MEMCPY) => median(lines.map((line) => line[name] / line[base]));
    const values = {
      bf16: ratio('BF16'),
      f16: ratio('F16'),
      f8: Math.max(...F8.map((dtype) => ratio(dtype))),
      threads: ratio('BF16, one thread', 'BF16, two threads'),
      loop: ratio('JavaScript over pairs', 'BF16'),
    };
    return {
      title: `Conversion to float32, ${count / 2 ** 20} Mi values into an array used again`,
      rows: [
        ['what', 'time', 'ratio to memcpy'],
        ...Object.keys(lines[0] ?? {}).map((name) => [
          name === MEMCPY ? 'F32: memcpy of the output' : name,
          formatDuration(time(name)),
          ratio(name).toFixed(2),
        ]),
      ],
      notes: [
        ...convert.reasons,
        'JavaScript converts BF16; the rows with one and two threads go into shared memory',
      ],
      targets: targetsOf(
        values,
        `
        BF16 to float32 against a memcpy | at most 0.6 × | bf16
        F16 to float32 against a memcpy | at most 1 × | f16
        F8 to float32 against a memcpy | at most 1 × | f8
        BF16 to float32, two threads: faster than one | at least 1.4 × | threads
        BF16 to float32: faster than JavaScript | at least 3 × | loop`,
      ),
    };
  },
};

/** The table of a model with 7 billion parameters: 262 MB. */
const ROWS = 32_000;
const WIDTH = 4096;
/** How many rows are taken at once: the tokens of a text. */
const TAKEN_ROWS = 512;

const LOOP = ours('slices in a loop', 'rows.mjs', 'slices');
const TAKE_FLOAT32 = ours('takeFloat32', 'rows.mjs', 'takeFloat32');
const TAKE_FLOAT32_ASYNC = ours('takeFloat32Async', 'rows.mjs', 'takeFloat32Async');
const LOOP_FLOAT32 = ours('slices in a loop, float32', 'rows.mjs', 'slices-float32');
/** What each is compared with. */
const LOOPS = new Map([
  [LOOP, LOOP],
  [ours('take', 'rows.mjs', 'take'), LOOP],
  [ours('takeAsync', 'rows.mjs', 'takeAsync'), LOOP],
  [LOOP_FLOAT32, LOOP_FLOAT32],
  [TAKE_FLOAT32, LOOP_FLOAT32],
  [TAKE_FLOAT32_ASYNC, LOOP_FLOAT32],
]);

/** All methods of a kind must have written the same. */
function refuseOtherSums({ rows }) {
  const sums = new Map();
  for (const { contender, lines } of rows) {
    for (const { sum } of lines) {
      const loop = LOOPS.get(contender);
      if ((sums.get(loop) ?? sum) !== sum) throw new Error(`${contender.name} took other rows`);
      sums.set(loop, sum);
    }
  }
}

/** Rows of an embedding table: taken in one call, beside a loop of slices. */
export const rows = {
  name: 'rows',
  prepare: async ({ folder, signal, size }) => {
    const path = join(folder, 'table.safetensors');
    const count = size(ROWS, 1000);
    await writeModel(path, [tensor('table', 'BF16', count, WIDTH)], signal);
    return { path, count };
  },
  legs: ({ rounds }, { path }) => {
    const leg = { contenders: [...LOOPS.keys()], path, args: [`${TAKEN_ROWS}`], rounds };
    return {
      warm: { ...leg, cache: 'warm', figures: ['later'] },
      cold: { ...leg, cache: 'cold', figures: ['first'] },
    };
  },
  report: ({ warm, cold }, _, { count }) => {
    const measured = Measured.of(warm, cold);
    refuseOtherSums(measured);
    const later = ({ later }) => median(later);
    const again = (contender) => warm.median(contender, later);
    const first = (contender) => cold.median(contender, 'first');
    const gain = (contender, time) => time(LOOPS.get(contender)) / time(contender);
    const values = { warm: gain(TAKE_FLOAT32, again), cold: gain(TAKE_FLOAT32_ASYNC, first) };
    return {
      title: `${TAKEN_ROWS} rows of 8 kB, BF16, scattered over a table of ${count} rows`,
      rows: tableOf(
        'what | page cache | gain | from the disk | gain | event loop held',
        [...LOOPS.keys()],
        warm.show(later),
        (contender) => formatRatio(gain(contender, again)),
        cold.show('first'),
        (contender) => formatRatio(gain(contender, first)),
        cold.show('held'),
      ),
      notes: [
        ...measured.reasons,
        'into an array used again; "event loop held": the longest time, from the disk',
      ],
      targets: targetsOf(
        values,
        `
        takeFloat32, page cache: faster than slices | at least 2 × | warm
        takeFloat32Async, from the disk: faster than slices | at least 10 × | cold`,
      ),
    };
  },
};
