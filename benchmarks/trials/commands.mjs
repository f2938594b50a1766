/** The command line as people run it: whole processes, against other programs that give the same answer. */
import { copyFile, open } from 'node:fs/promises';
import { join } from 'node:path';
import { CONTENDERS, pick } from '../contenders.mjs';
import { manySmallTensors, tensor, writeSparseModel } from '../models.mjs';
import { timeProcess } from '../processes.mjs';

const short = pick('nodeStart version inspect header verifyCommand threeLines');
/** It finds a difference, and says so by its exit code. */
const diffs = pick('diff torchDiff');

/** Short processes, between which there is little difference. */
const SHORT_ROUNDS = 40;

/** Processes of about a second. */
const LISTING_ROUNDS = 9;

/** One value changes in so many bytes of the second file. */
const CHANGE_EVERY_BYTES = 2 ** 16;

/** A copy of a safetensors file in which the lowest bit of some values is flipped. */
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
  return { other: target };
}

/** Of each tensor that differs, how many values do; both programs print that. */
function foundBy({ changed }) {
  const lines = changed.map(({ name, values }) => `${name} ${values.differing}`);
  return lines.toSorted().join();
}

const commandsOfModel = {
  name: 'commands',
  prepare: ({ path, folder }) => writeChangedCopy(path, join(folder, 'changed.safetensors')),
  legs: ({ rounds, many, signal }, { other }) => {
    const run = async (command) => {
      const { elapsed, line } = await timeProcess(command, signal);
      return { elapsed, found: foundBy(line()) };
    };
    const leg = { cache: 'warm', clock: 'elapsed' };
    return {
      short: { ...leg, contenders: short, rounds: many(SHORT_ROUNDS) },
      hashes: { ...leg, contenders: pick('hash openssl hashlib sha256sum'), rounds },
      stats: { ...leg, contenders: pick('statsCommand'), rounds },
      diff: { cache: 'warm', contenders: diffs, args: [other], rounds, run },
    };
  },
  values: ({ short, diff }) => {
    const found = new Set(diffs.flatMap((one) => diff.lines(one).map((line) => line.found)));
    if (found.size > 1) throw new Error('diff finds other differences than torch');
    const excess = (one) => short.excess(one, CONTENDERS.nodeStart);
    return { excess: excess(CONTENDERS.inspect), versionExcess: excess(CONTENDERS.version) };
  },
  page: `
    ## The command line: whole processes
    | program | time = elapsed |
    - the first six: medians of ${SHORT_ROUNDS}
    - hash gives seven hashes, the other three one of them
    - diff: the model and a copy in which a value of every ${CHANGE_EVERY_BYTES / 1024} KiB is another one
    - {reasons}
    > inspect, above bare Node | at most 25 ms | $excess | bare Node = nodeStart.elapsed
    > --version, above bare Node | at most 5 ms | $versionExcess | bare Node = nodeStart.elapsed
    > hash against openssl | at most 1.22 × | hash.elapsed / openssl.elapsed
    > header against three lines of Python | at most 1 × | header.elapsed / threeLines.elapsed | ours = header.elapsed & theirs = threeLines.elapsed & bare Node = nodeStart.elapsed
    > diff --values: faster than torch | at least 5 × | torchDiff.elapsed / diff.elapsed`,
};

const LISTINGS = pick('inspect inspectJson');

/** Files whose headers are long. */
const LONG_HEADERS = {
  '92 000 tensors': (size) => manySmallTensors(size(92_000, 920)),
  '100 names of 100 000 characters': (size) =>
    Array.from({ length: 100 }, (_, i) => tensor('x'.repeat(size(100_000, 1000)) + i, 'F32', 2)),
};

/** The text and the JSON of `inspect`, of long headers. */
const listings = {
  name: 'commands',
  prepare: async ({ folder, size }) => {
    const paths = {};
    for (const [label, tensorsOf] of Object.entries(LONG_HEADERS)) {
      paths[label] = join(folder, `${label}.safetensors`);
      await writeSparseModel(paths[label], tensorsOf(size));
    }
    return paths;
  },
  legs: ({ rounds, many }, paths) => {
    const leg = { contenders: LISTINGS, rounds: Math.max(rounds, many(LISTING_ROUNDS)) };
    const legOf = ([label, path]) => [label, { ...leg, path, clock: 'elapsed' }];
    return Object.fromEntries(Object.entries(paths).map(legOf));
  },
  rows: (read) => [
    ['header', ...LISTINGS.map(({ name }) => name)],
    ...Object.keys(LONG_HEADERS).map((label) => [
      label,
      ...LISTINGS.map((one) => read(`${label}:elapsed`, one).text),
    ]),
  ],
  page: `
    ## Long headers, listed by the command line: whole processes
    - {reasons}
    - more than 200 tensors are shown as a tree
    > inspect, 92 000 tensors | at most 0.4 s | 92 000 tensors:inspect.elapsed | --json = 92 000 tensors:inspectJson.elapsed
    > inspect, names of 10 MB | at most 1 s | 100 names of 100 000 characters:inspect.elapsed | --json = 100 names of 100 000 characters:inspectJson.elapsed`,
};

export const commands = [commandsOfModel, listings];
