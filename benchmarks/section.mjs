/**
 * The one writer of tables: what a trial measured, by the lines of its `page`.
 * - `## Title`
 * - `| head | column = expression unit | … |`: a row for each contender, its name in the first column
 * - `- note`; `{reasons}`, after any text, makes a note for each contender that was not measured, `{reasons a b}`
 *   for those of the legs a and b
 * - `> what | at most 12 ms | expression | beside = expression unit & …`: a target
 * `{name}` and `$name` are `values` of the trial, functions of the row's contender among them; `{= expression}` is its
 * text. An expression is `[leg:][contender.]figure`, by default over all legs and of the row's contender, or the ratio
 * of two: the median of a figure of the lines, or its `max(figure)` or `span(figure)`. A figure may be a function of
 * the line in `figures`. The default unit is ms. Beside a ratio stand by default the times of this package and of the
 * rival: it is `ours / theirs`, or with "at least" `theirs / ours`. A dash stands for nothing.
 */
import { showProgress } from './command-line.mjs';
import { CONTENDERS } from './contenders.mjs';
import * as figures from './figures.mjs';
import { Measured, runTrial } from './measure.mjs';

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
  return (formula, row) => {
    const [, expression, unit = 'ms'] = /^(.*?)(?: (ms|s|×|1×|\+?MB|#))?$/.exec(formula);
    const terms = expression.split(' / ');
    const [above, below = 1] = terms.map((term) => read(term, row));
    const value = typeof above === 'string' ? above : above / below;
    const text = typeof value === 'string' ? value : figures.FORMATS[unit][0](value);
    return { value, terms, text };
  };
}

/** A row of the table of targets. */
function targetOf(line, read) {
  const [what, limit, expression, more] = line.split(' | ');
  const [, word, number, unit] = /^(at most|at least) ([\d.]+) (\S+)$/.exec(limit);
  const { value, terms } = read(expression);
  const [format, scale] = figures.FORMATS[unit];
  const bound = number * scale;
  const isReached = word === 'at most' ? value <= bound : value >= bound;
  const verdict = Number.isNaN(value) ? 'not measured' : isReached ? 'pass' : 'FAIL';
  const [ours, theirs] = word === 'at most' ? terms : terms.toReversed();
  const usual = theirs === undefined ? '' : `ours = ${ours} & theirs = ${theirs}`;
  const beside = (more ?? usual).matchAll(/(?:^| & )(.*?) = (.*?)(?= & |$)/g);
  const shown = Array.from(beside, ([, name, other]) => ({ name, ...read(other) }))
    .filter(({ value }) => !Number.isNaN(value))
    .map(({ name, text }) => `${name} ${text}`);
  return [what, `${word} ${format(bound)}`, format(value), verdict, shown.join(', ')];
}

/** A note as it is, or the reasons that it stands for. */
function notesOf(note, legs) {
  const [, text, names] = /^(.*)\{reasons ?(.*)\}$/.exec(note) ?? [];
  if (names === undefined) return [note];
  const chosen = names === '' ? Object.values(legs) : names.split(' ').map((name) => legs[name]);
  const { reasons } = Measured.of(...chosen.filter((leg) => leg !== undefined));
  return [...new Set(reasons)].map((reason) => text + reason);
}

/** Makes `{ title, rows, notes, targets, chart }` of what the legs of a trial measured. */
export function sectionOf(trial, legs, bench, files) {
  const values = trial.values?.(legs, bench, files) ?? {};
  const read = makeReader(trial, legs, values);
  const page = trial.page
    .replaceAll(/\{(\w+)\}/g, (text, name) => values[name] ?? text)
    .replaceAll(/\{= (.+?)\}/g, (_, expression) => read(expression).text);
  const after = (mark) =>
    Array.from(page.matchAll(new RegExp(`^ *[${mark}]+ (.*)$`, 'gm')), ([, line]) => line);
  const merged = Measured.of(...Object.values(legs));
  const all = new Set(merged.rows.map(({ contender }) => contender));
  const contenders = trial.contenders ?? [...all];
  const [head = ''] = after('|');
  const columns = head.split(' | ').map((cell) => cell.replace(/ \|$/, '').split(/ = (.*)/));
  const rowOf = (one) => [
    one.name,
    ...columns.slice(1).map(([, expression]) => read(expression, one).text),
  ];
  const { bars, unit, ...chart } = trial.chart ?? {};
  const measured = contenders.filter((contender) => merged.lines(contender).length > 0);
  const barsOf = (one) => bars.map((bar) => Math.max(0, read(bar, one).value));
  return {
    title: after('#')[0],
    rows: trial.rows?.(read, values) ?? [columns.map(([name]) => name), ...contenders.map(rowOf)],
    notes: after('-').flatMap((note) => notesOf(note, legs)),
    targets: after('>').map((line) => targetOf(line, read)),
    chart: bars && {
      ...chart,
      bars: new Map(measured.map((one) => [one.name, barsOf(one)])),
      format: figures.FORMATS[unit][0],
    },
  };
}

/** Runs a trial and makes its section. */
export async function runSection(trial, bench) {
  const section = await runTrial(trial, bench, (...measured) => sectionOf(trial, ...measured));
  showProgress('');
  return section;
}
