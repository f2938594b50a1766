/**
 * The one writer of tables: what a trial measured, by the lines of its `page`.
 * - `## Title`
 * - `| head | column = expression unit | … |`: a row for each contender, its name in the first column
 * - `- note`; `{reasons}` stands for a line for each contender that was not measured
 * - `> what | at most 12 ms | expression | beside = expression unit & …`: a target
 * `{name}` and `$name` are `values` of the trial, functions of the row's contender among them; `{= expression}` is its
 * text. An expression is `[leg:][contender.]figure` or the ratio of two: the
 * median of a figure of the lines, or its `max(figure)` or `span(figure)`, over all legs unless one is named, of the
 * row's contender unless another is named. A figure may be a function of the line in `figures`.
 * The unit is ms unless another follows. Beside a ratio stand by default the times of this package and of the rival:
 * it is `ours / theirs`, or with "at least" `theirs / ours`. A dash stands for nothing.
 */
import { CONTENDERS } from './contenders.mjs';
import * as figures from './figures.mjs';
import { Measured } from './measure.mjs';

const UNITS = {
  ms: [figures.formatDuration, 1],
  s: [figures.formatDuration, 1000],
  '×': [figures.formatRatio, 1],
  '1×': [figures.formatTenths, 1],
  MB: [figures.formatByteSize, 1e6],
  '+MB': [figures.formatGrowth, 1e6],
  '#': [figures.formatCount, 1],
};

const SUMMARIES = { median: figures.median, max: figures.max, span: figures.span };

/** A figure of the last expression's kind: NaN if it was not measured, a text for a span. */
function makeReader({ figures: computed = {} }, legs, values) {
  const merged = Measured.of(...Object.values(legs));
  const read = (term, row) => {
    const value = values[term.slice(1)];
    if (term.startsWith('$')) return typeof value === 'function' ? value(row) : value;
    const [, leg, name, how = 'median', figure] =
      /^(?:([^:]+):)?(?:(\w+)\.)?(?:(\w+)(?=\())?\(?(\w+)\)?$/.exec(term);
    const contender = name === undefined ? row : CONTENDERS[name];
    const measured = leg === undefined ? merged : (legs[leg] ?? new Measured([]));
    return SUMMARIES[how](measured.every(contender, computed[figure] ?? figure));
  };
  return (text, row) => {
    const [, expression, unit = 'ms'] = /^(.*?)(?: (ms|s|×|1×|\+?MB|#))?$/.exec(text);
    const terms = expression.split(' / ');
    const [above, below = 1] = terms.map((term) => read(term, row));
    const value = typeof above === 'string' ? above : above / below;
    return { value, unit, terms, text: typeof value === 'string' ? value : UNITS[unit][0](value) };
  };
}

/** A row of the table of targets. */
function targetOf(line, read) {
  const [what, limit, expression, more] = line.split(' | ');
  const [, word, number, per = '1', unit] = /^(at most|at least) ([\d.]+)(?:\/(\d+))? (\S+)$/.exec(
    limit,
  );
  const { value, terms } = read(expression);
  const [format, scale] = UNITS[unit];
  const bound = (Number(number) / Number(per)) * scale;
  const isReached = word === 'at most' ? value <= bound : value >= bound;
  const verdict = Number.isNaN(value) ? 'not measured' : isReached ? 'pass' : 'FAIL';
  const [ours, theirs] = word === 'at most' ? terms : terms.toReversed();
  const usual = terms.length === 1 ? '' : `ours = ${ours} & theirs = ${theirs}`;
  const entries = (more ?? usual).split(' & ').filter((entry) => entry.includes(' = '));
  const beside = entries.map((entry) => {
    const [, name, other] = /^(.*) = (.*)$/.exec(entry);
    return { name, ...read(other) };
  });
  const shown = beside
    .filter(({ value }) => !Number.isNaN(value))
    .map(({ name, text }) => `${name} ${text}`);
  return [what, `${word} ${format(bound)}`, format(value), verdict, shown.join(', ')];
}

/** Makes `{ title, rows, notes, targets, chart }` of what the legs of a trial measured. */
export function sectionOf(trial, legs, bench, files) {
  const values = trial.values?.(legs, bench, files) ?? {};
  const page = trial.page.replaceAll(/\{(\w+)\}/g, (text, name) => values[name] ?? text);
  const read = makeReader(trial, legs, values);
  const filled = page.replaceAll(/\{= (.+?)\}/g, (_, expression) => read(expression).text);
  const lines = filled
    .trim()
    .split('\n')
    .map((line) => line.trim());
  const after = (mark) =>
    lines.filter((line) => line.startsWith(mark)).map((line) => line.slice(mark.length));
  const merged = Measured.of(...Object.values(legs));
  const contenders = trial.contenders ?? [
    ...new Set(merged.rows.map(({ contender }) => contender)),
  ];
  const [head = ''] = after('| ');
  const columns = head.split(' | ').map((cell) => cell.replace(/ \|$/, '').split(/ = (.*)/));
  const { rows = [columns.map(([name]) => name)] } = { rows: trial.rows?.(read, values, bench) };
  if (trial.rows === undefined) {
    for (const contender of contenders) {
      const cells = columns.slice(1).map(([, expression]) => read(expression, contender).text);
      rows.push([trial.labels?.get(contender) ?? contender.name, ...cells]);
    }
  }
  const reasons = [...new Set(merged.reasons)];
  const { bars, unit, ...chart } = trial.chart ?? {};
  const measured = contenders.filter((contender) => merged.lines(contender).length > 0);
  return {
    title: after('## ')[0],
    rows,
    notes: after('- ').flatMap((note) => (note === '{reasons}' ? reasons : [note])),
    targets: after('> ').map((line) => targetOf(line, read)),
    chart: bars && {
      ...chart,
      bars: new Map(
        measured.map((one) => [one.name, bars.map((bar) => Math.max(0, read(bar, one).value))]),
      ),
      format: UNITS[unit][0],
    },
  };
}
