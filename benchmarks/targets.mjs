/** Figures that have to be reached, each with what a rival took in the same run. */
import * as figures from './figures.mjs';

const { formatByteSize, formatCount, formatDuration, formatRatio } = figures;
const UNITS = {
  ms: [formatDuration, 1],
  s: [formatDuration, 1000],
  '×': [formatRatio, 1],
  MB: [formatByteSize, 1e6],
  '': [formatCount, 1],
};

/**
 * Rows of the table of targets, from lines of `what | limit | figure | beside` and the values that they name. A figure
 * is a value or the ratio of two; beside it stand `name = value & name = value`, in ms unless a unit in brackets follows.
 * Beside a ratio stand by default the times of this package and of the rival: it is `ours / theirs`, or with
 * "at least" `theirs / ours`.
 */
export function targetsOf(values, lines) {
  return lines
    .trim()
    .split('\n')
    .map((line) => {
      const [what, limit, figure, more] = line.split(' | ').map((cell) => cell.trim());
      const [, word, number, per = '1', unit] =
        /^(at most|at least) ([\d.]+)(?:\/(\d+))? ?(\S*)$/.exec(limit);
      const [format, scale] = UNITS[unit];
      const [above, below] = figure.split(' / ');
      const actual = below === undefined ? values[above] : values[above] / values[below];
      const bound = (Number(number) / Number(per)) * scale;
      const isReached = word === 'at most' ? actual <= bound : actual >= bound;
      const verdict = Number.isNaN(actual) ? 'not measured' : isReached ? 'pass' : 'FAIL';
      const [ours, theirs] = word === 'at most' ? [above, below] : [below, above];
      const usual = below === undefined ? '' : `ours = ${ours} & theirs = ${theirs}`;
      return [
        what,
        `${word} ${format(bound)}`,
        format(actual),
        verdict,
        besideOf(values, more ?? usual),
      ];
    });
}

/** Values by their names, those left out that were not measured; a text as it is. */
function besideOf(values, text) {
  const [, list, unit = 'ms'] = /^(.*?)(?: \((\S*)\))?$/.exec(text);
  const entries = list
    .split(' & ')
    .filter((entry) => entry !== '')
    .map((entry) => entry.split(' = '));
  return entries
    .filter(([, value]) => !Number.isNaN(values[value]))
    .map(
      ([name, value]) =>
        `${name} ${typeof values[value] === 'string' ? values[value] : UNITS[unit][0](values[value])}`,
    )
    .join(', ');
}

/** A limit in a release of Node: before 22, before 24, and later. */
export function ofNode(node, limits) {
  const major = Number.parseInt(node, 10);
  return major < 22 ? limits[20] : major < 24 ? limits[22] : limits[24];
}

const HEADING = ['what', 'to reach', 'measured', 'verdict', 'beside'];

/** All targets with their verdicts as a Markdown table. */
export const markdownTargets = (targets) => figures.markdownTable([HEADING, ...targets]);

/** Such a table with these targets in place of those with the same names; new ones come last. */
export function replaceTargets(table, targets) {
  const [, ...old] = figures.rowsOf(table);
  return markdownTargets([...new Map([...old, ...targets].map((row) => [row[0], row])).values()]);
}
