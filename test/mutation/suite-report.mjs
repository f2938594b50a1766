/** The report of a mutation run with a test suite. */
import { keyOf } from './sample.mjs';

const isKilled = ({ killedBy }) => killedBy !== undefined;

/**
 * Counts the faults that the first project kills, the first two projects, and so on, as [names, count]. Without a list
 * of projects, one entry counts all kills.
 */
export function killsBy(projects, faults) {
  const killed = faults.filter(isKilled);
  if (projects.length === 0) return [['all projects', killed.length]];
  return projects.map((_, i) => {
    const first = projects.slice(0, i + 1);
    return [
      first.join(' + '),
      killed.filter(({ killedBy }) => first.includes(killedBy.project)).length,
    ];
  });
}

/** Formats kills: `unit: 40, unit + slow: 52 of 60`. */
export function formatKills(projects, faults, total) {
  const kills = killsBy(projects, faults).map(([names, count]) => `${names}: ${count}`);
  return `${kills.join(', ')} of ${total}`;
}

const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

export function formatVerdict({ killedBy, reachedBy }) {
  if (killedBy !== undefined) return `${killedBy.path}: ${killedBy.name ?? killedBy.how}`;
  return `**survivor**, ${reachedBy === 0 ? 'not reached' : `reached by ${reachedBy} files`}`;
}

function rowOf(fault) {
  const place = `\`${fault.path}:${fault.line}\``;
  return `| ${place} | \`${cell(fault.fault)}\` | ${cell(formatVerdict(fault))} |`;
}

/** Compares with the faults of an earlier report. */
function comparison(projects, faults, earlier) {
  const keys = new Set(earlier.filter(isKilled).map(keyOf));
  const before = faults.filter((fault) => keys.has(keyOf(fault)));
  const lost = before.filter((fault) => !isKilled(fault));
  return [
    '',
    `Faults that the earlier run killed: ${formatKills(projects, before, keys.size)}.`,
    ...lost.map(({ path, line, fault }) => `- no longer killed: \`${path}:${line}\` \`${fault}\``),
  ];
}

/** Formats the report as Markdown. `earlier` has the faults of the report that chose those of this run. */
export function pageOf({ seed, total, projects, minutes, failing, gone, faults }, earlier) {
  const rest = total - gone.length - faults.length;
  return [
    `# Mutation testing of all directories, seed ${seed}`,
    '',
    `Killed by ${formatKills(projects, faults, total)} faults, in ${minutes} minutes.`,
    ...(rest > 0 ? [`Interrupted: ${rest} faults have not run.`] : []),
    ...gone.map((key) => `- no longer in the sources: \`${key}\``),
    ...failing.map((name) => `- not counted, fails without a fault: ${name}`),
    ...(earlier === undefined ? [] : comparison(projects, faults, earlier)),
    '',
    '| place | fault | killed by |',
    '|---|---|---|',
    ...faults.map(rowOf),
    '',
  ].join('\n');
}
