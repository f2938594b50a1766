/** The command line as people run it: whole processes, beside what else gives the same answer. */
import { copyFile, open } from 'node:fs/promises';
import { join } from 'node:path';
import { command, contender, NODE_START, TORCH } from '../contenders.mjs';
import { median } from '../figures.mjs';
import { Measured, tableOf } from '../measure.mjs';
import { timeProcess } from '../processes.mjs';
import { targetsOf } from '../targets.mjs';

const INSPECT = command('inspect');
const HEADER = command('header');
const HASH = command('hash');
/** It finds a difference, and says so by its exit code. */
const DIFF = command('diff --values --json', 1);
const PRINT_HEADER = contender('header: three lines of Python', 'print_header.py', '-');
const SHA256SUM = contender('sha256sum', 'sha256sum', '');
const COMPARE = contender(
  'diff --values: the same in Python with torch',
  'compare_tensors.py',
  '-',
  TORCH,
);
const SHORT = [NODE_START, INSPECT, HEADER, PRINT_HEADER];
const HASHES = [HASH, SHA256SUM];

/** Short processes, between which there is little difference. */
const SHORT_ROUNDS = 40;

/** One value changes in so many bytes of the second file. */
const CHANGE_EVERY_BYTES = 2 ** 16;

/** A copy of a safetensors file in which the lowest bit of some values is another one. */
async function writeChangedCopy(path, target) {
  await copyFile(path, target);
  const file = await open(target, 'r+');
  const { size } = await file.stat();
  const bytes = Buffer.alloc(8);
  await file.read(bytes, 0, 8, 0);
  for (let at = 8 + Number(bytes.readBigUInt64LE()); at < size; at += CHANGE_EVERY_BYTES) {
    await file.read(bytes, 0, 1, at);
    await file.write(Buffer.of(bytes.readUInt8() ^ 1), 0, 1, at);
  }
  await file.close();
}

/** Of each tensor that differs, how many values do; both programs print that. */
const foundBy = ({ changed }) =>
  changed
    .map(({ name, values }) => `${name} ${values.differing}`)
    .toSorted()
    .join();

export const commands = {
  name: 'commands',
  prepare: async ({ path, folder }) => {
    const other = join(folder, 'changed.safetensors');
    await writeChangedCopy(path, other);
    return { other };
  },
  legs: ({ rounds, many, signal }, { other }) => {
    const run = async (command) => ({ elapsed: (await timeProcess(command, signal)).elapsed });
    const runDiff = async (command) => {
      const { elapsed, line } = await timeProcess(command, signal);
      return { elapsed, found: foundBy(line()) };
    };
    const leg = { cache: 'warm', run };
    return {
      // Brings the programs themselves into the page cache; not counted.
      before: { ...leg, contenders: [...SHORT, ...HASHES], rounds: 1, figures: [] },
      short: { ...leg, contenders: SHORT, rounds: many(SHORT_ROUNDS) },
      hashes: { ...leg, contenders: HASHES, rounds },
      diff: { ...leg, contenders: [DIFF, COMPARE], args: [other], rounds, run: runDiff },
    };
  },
  report: ({ short, hashes, diff }) => {
    const measured = Measured.of(short, hashes, diff);
    const found = new Set(
      [DIFF, COMPARE].flatMap((one) => diff.lines(one).map((line) => line.found)),
    );
    if (found.size > 1) throw new Error('diff finds other differences than torch');
    const contenders = measured.rows.map(({ contender }) => contender);
    const [alone, , header, python, hash, sha, diffed, torch] = contenders.map((contender) =>
      measured.median(contender, 'elapsed'),
    );
    const bare = short.every(NODE_START, 'elapsed');
    const excess = median(short.every(INSPECT, 'elapsed').map((elapsed, i) => elapsed - bare[i]));
    return {
      title: 'The command line: whole processes',
      rows: tableOf('program | time', contenders, measured.show('elapsed')),
      notes: [
        `the first four: medians of ${SHORT_ROUNDS}`,
        'hash gives seven hashes, sha256sum one of them',
        `diff: the model and a copy in which a value of every ${CHANGE_EVERY_BYTES / 1024} KiB is another one`,
        ...measured.reasons,
      ],
      targets: targetsOf(
        { alone, excess, header, python, hash, sha, diffed, torch },
        `
        inspect, above Node alone | at most 30 ms | excess | Node alone = alone
        hash against sha256sum | at most 1.1 × | hash / sha
        header against three lines of Python | at most 1 × | header / python | ours = header & theirs = python & Node alone = alone
        diff --values: faster than torch | at least 5 × | torch / diffed`,
      ),
    };
  },
};
