/** This package in the folder against that of a commit: which is faster, where noise does not explain it. */
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { showProgress, UsageError } from './command-line.mjs';
import { ROOT_FOLDER } from './equipment.mjs';
import { formatByteSize, formatDuration, median } from './figures.mjs';
import { measure, runTrial } from './measure.mjs';

/** The risk that two equal versions get a verdict, in each comparison, however noise is distributed. */
const RISK = 0.001;
/** Fewer rounds have too few orders of signs to show anything at that risk. */
export const LEAST_ROUNDS = 11;
/** Differences below this are no verdict: two builds of one commit may differ by as much. */
const LEAST_CHANGE = 0.01;

/** So many signed ranks or fewer of `count` rounds have a probability of at most `risk`, by Wilcoxon's distribution. */
function criticalRank(count, risk) {
  let ways = [1];
  for (let rank = 1; rank <= count; rank++) {
    const next = Array.from({ length: ways.length + rank }, (_, sum) => ways[sum] ?? 0);
    for (const [sum, way] of ways.entries()) next[sum + rank] += way;
    ways = next;
  }
  let sum = 0;
  for (let total = ways[0]; total <= risk * 2 ** count; sum++) total += ways[sum + 1];
  return sum - 1;
}

/**
 * Judges pairs of times, each taken in the same round, in which both versions have run in an order that alternates,
 * so that without a difference the logarithm of their ratio is as likely above zero as below. Wilcoxon's
 * signed ranks give an interval for it that contains the truth but for one time in a thousand, whatever the noise
 * looks like; outliers, as other programs cause, move it little. A verdict needs the whole interval on one side.
 */
export function judge(before, after) {
  const logs = before.map((time, round) => Math.log(after[round] / time));
  const pairs = logs.flatMap((a, i) => logs.slice(i).map((b) => (a + b) / 2));
  const averages = pairs.sort((a, b) => a - b);
  const critical = criticalRank(logs.length, RISK / 2);
  const interval = [averages[critical], averages.at(-1 - critical)].map(Math.expm1);
  const change = Math.expm1(median(averages));
  const isSure = interval[0] > LEAST_CHANGE || interval[1] < -LEAST_CHANGE;
  const size = `${change > 0 ? 'slower' : 'faster'} by ${(Math.abs(change) * 100).toFixed(1)} %`;
  return { change, interval, verdict: isSure ? size : 'no difference beyond noise' };
}

/** Checks out and builds a commit. The programs that are measured are those of this folder. */
async function buildTree(commit, tree, rounds) {
  const run = (cwd, file, ...args) => {
    const options = { cwd, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 };
    const { status, stdout, stderr, error } = spawnSync(file, args, options);
    if (status === 0) return;
    // Compilers print what is wrong on either.
    throw new UsageError(`${file} ${args.join(' ')}: ${error?.message ?? stdout + stderr}`);
  };
  const question = ['cat-file', '-e', `${commit}^{commit}`];
  const { status } = spawnSync('git', question, { cwd: ROOT_FOLDER });
  if (status !== 0) throw new UsageError(`there is no commit ${commit}`);
  console.error(`bench: compiling ${commit}, then ${rounds} rounds of each contender`);
  await mkdir(tree);
  run(ROOT_FOLDER, 'git', 'archive', '--output', `${tree}.tar`, commit);
  run(tree, 'tar', '-xf', `${tree}.tar`);
  const [lock, ownLock] = await Promise.all(
    [tree, ROOT_FOLDER].map((folder) => readFile(join(folder, 'package-lock.json'), 'utf8')),
  );
  // A commit whose lock file differs gets its own packages.
  if (lock === ownLock)
    await symlink(join(ROOT_FOLDER, 'node_modules'), join(tree, 'node_modules'));
  else run(tree, 'npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts');
  const { scripts } = JSON.parse(await readFile(join(tree, 'package.json'), 'utf8'));
  // Earlier commits have another name for it.
  run(tree, 'npm', 'run', '--silent', scripts.build === undefined ? 'compile' : 'build');
  // They import the package by its name, which is that of the tree they lie in.
  await rm(join(tree, 'benchmarks'), { recursive: true });
  for (const name of ['children', 'figures.mjs']) {
    await cp(join(import.meta.dirname, name), join(tree, 'benchmarks', name), { recursive: true });
  }
}

/**
 * The time that counts of every round, the shorter of two: what other programs add hits one of them more often than
 * both. Of a list of times in a line it is the median.
 */
function timesOf(measured, contender, figure) {
  const times = measured.every(contender, (line) => median([line[figure]].flat()));
  if (times.some((time) => !(time > 0))) {
    throw new Error(`${contender.name} prints no time as "${figure}"`);
  }
  const pairs = Array.from({ length: times.length / 2 }, (_, i) => times.slice(2 * i, 2 * i + 2));
  return pairs.map((pair) => Math.min(...pair));
}

const percent = (share) => `${share > 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;

/** Times before and after, with a verdict, as cells of a row; the reason for their absence, when one version failed. */
function cellsOf(before, after, reasons) {
  if (before.length === 0 || after.length === 0) return ['–', '–', '–', '–', reasons.join('; ')];
  const { change, interval, verdict } = judge(before, after);
  const times = [before, after].map((all) => formatDuration(median(all)));
  return [...times, percent(change), interval.map(percent).join(' … '), verdict];
}

/** Compares all contenders of the trials that run this package, and prints a line for each figure. */
export async function compareTrees(commit, trials, bench) {
  const tree = join(bench.folder, 'other-tree');
  await buildTree(commit, tree, bench.rounds);
  const head = ['trial: contender, figure', commit, 'now', 'change', '99.9 % between', 'verdict'];
  const memory = [`memory, ${commit}`, 'memory, now'];
  console.log(
    `| ${[...head, ...memory].join(' | ')} |\n| --- | --: | --: | --: | --: | --- | --: | --: |`,
  );
  const order = ([a, b], round) => (round % 2 === 0 ? [a, b, b, a] : [b, a, a, b]);
  const compareLeg = async (leg, title, own) => {
    const { contenders, compared = ['elapsed'] } = leg;
    for (const contender of compared.length === 0 ? [] : contenders.filter(({ ours }) => ours)) {
      const pair = [{ ...contender, root: tree }, contender];
      const both = { contenders: pair, order, rounds: bench.rounds, hasWarmUp: true };
      const measured = await measure({ ...leg, ...both, trusted: leg.trusted && pair }, title, own);
      showProgress('');
      for (const figure of compared) {
        const times = pair.map((one) => timesOf(measured, one, figure));
        const [before, now] = pair.map((one) => formatByteSize(measured.privateMemory(one)));
        const cells = [...cellsOf(...times, measured.reasons), before, now];
        console.log(`| ${title}: ${contender.name}, ${figure} | ${cells.join(' | ')} |`);
      }
    }
  };
  for (const trial of trials) await runTrial(trial, bench, () => {}, compareLeg);
}
