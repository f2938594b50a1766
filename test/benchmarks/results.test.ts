/** Results of benchmarks: verdicts, tables, charts, the tables of other pages. */
import { describe, expect, test } from 'vitest';
import { CONTENDERS } from '../../benchmarks/contenders.mjs';
import { Measured } from '../../benchmarks/measure.mjs';
import * as report from '../../benchmarks/report.mjs';
import { sectionOf } from '../../benchmarks/section.mjs';
import { textOf } from '../support/source-tree.js';

test('a section has a row for each contender, and targets that are met at their limit', () => {
  const { ours: mine, readFile: theirs, torch: absent } = CONTENDERS;
  const rows = [
    { contender: mine, lines: [{ time: 1 }, { time: 3 }, { time: 2 }], reason: undefined },
    { contender: theirs, lines: [{ time: 4, size: 3e6 }], reason: undefined },
    { contender: absent, lines: [], reason: 'gone' },
  ];
  const page = `
    ## Of {count}
    | who | time = time | ratio = time / ours.time × | range = span(time) | label = $label |
    - {reasons}
    - costs {= readFile.time / ours.time ×}
    > met | at most 4 ms | readFile.time
    > faster | at least 3 × | readFile.time / ours.time
    > slower | at most 0.5 × | all:ours.time / readFile.time
    > unknown | at least 1 s | torch.time | here = ours.time & there = torch.time & range = ours.span(time)
    > size | at most 2 MB | readFile.size | by $two = $two #`;
  const label = ({ method }: { method: string }): string => method;
  const trial = { page, values: () => ({ count: 3, two: 2, label }) };
  expect(sectionOf(trial, { all: new Measured(rows) }, {}, {})).toEqual({
    title: 'Of 3',
    rows: [
      ['who', 'time', 'ratio', 'range', 'label'],
      [mine.name, '2.00 ms', '1.00 ×', '1.00 ms – 3.00 ms', 'mapped'],
      [theirs.name, '4.00 ms', '2.00 ×', '4.00 ms – 4.00 ms', 'readFile'],
      [absent.name, '–', '–', '–', 'safe_open-torch'],
    ],
    notes: [`${absent.name} was not measured: gone`, 'costs 2.00 ×'],
    targets: [
      ['met', 'at most 4.00 ms', '4.00 ms', 'pass', ''],
      ['faster', 'at least 3.00 ×', '2.00 ×', 'FAIL', 'ours 2.00 ms, theirs 4.00 ms'],
      ['slower', 'at most 0.50 ×', '0.50 ×', 'pass', 'ours 2.00 ms, theirs 4.00 ms'],
      ['unknown', 'at least 1.00 s', '–', 'not measured', 'here 2.00 ms, range 1.00 ms – 3.00 ms'],
      ['size', 'at most 2.00 MB', '3.00 MB', 'FAIL', 'by $two 2'],
    ],
    chart: undefined,
  });
});

describe('the page of results', () => {
  const chart = {
    ...{ file: 'some.svg', title: 'Title "quoted"', series: ['opened', 'every byte'] },
    bars: new Map([
      ['a <rival> & more', [100, 100]],
      ['ours', [Number.NaN, 50]],
    ]),
    emphasis: 'ours',
    format: (value: number) => `${value} ms`,
  };
  const section = (title: string, time: string) => ({
    title,
    rows: [
      ['reader', 'time'],
      ['ours', time],
    ],
    notes: ['a rival was not measured: it is not there'],
    targets: [[`${title} is fast`, 'at most 2', time, 'pass', '']],
    chart: undefined as typeof chart | undefined,
  });
  const facts = { date: '2026-01-01', processor: 'a CPU', model: '1 GB', node: '20.1.2, more' };
  const files = (old: string, run: object, sections: object[], isWhole: boolean) =>
    report.resultFiles(old, { ...facts, ...run }, sections, isWhole) as Map<string, string>;
  const whole = files('', {}, [{ ...section('One', '1'), chart }, section('Two', '2')], true);
  const page = whole.get('results.md') ?? '';
  const tables = (text: string) => text.match(/^(## .*|\| (?!-).*)$/gm);

  test('has the machine, the charts, the tables, what is missing, and the verdicts', () => {
    const head =
      /^# Results\n\n- date: 2026-01-01\n[\s\S]*lazy figures[\s\S]*!\[Title "quoted"\]\(some\.svg\)\n\n## One/;
    expect(page).toMatch(head);
    expect(page).toContain(
      '| ours   |    1 |\n\n- a rival was not measured: it is not there\n\n## T',
    );
    expect(page).toMatch(
      /## Targets on Node 20\n\nNode 20\.1\.2, 2026-01-01, 1 GB:\n\n\| what .*\n.*\n\| One is fast .*\n\| Two is fast .*\n$/,
    );
  });

  test('has a chart with a bar for every value, on one scale from zero, the shortest first', () => {
    const svg = whole.get('some.svg') ?? '';
    const bars = svg.matchAll(/width="([\d.]+)" height="11" rx/g);
    const [mine = 0, ...theirs] = Array.from(bars, ([, width]) => Number(width));
    expect(theirs.map((width) => (mine / width).toFixed(2))).toEqual(['0.50', '0.50']);
    const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
    for (const [, x, y] of svg.matchAll(/ x="([\d.]+)" y="([\d.]+)"/g)) {
      expect(Number(x) < Number(width) && Number(y) < Number(height)).toBe(true);
    }
    for (const part of ['a &lt;rival&gt; &amp; more', '>1 GB · a CPU · 2026-01-01<', 'ours s1']) {
      expect(svg).toContain(part);
    }
  });

  test('gets the tables and targets of a later run of some trials, which say so', () => {
    const run = { date: '2026-02-02' };
    const later = files(page, run, [section('Two', '9'), section('Three', '3')], false);
    const replaced = later.get('results.md') ?? '';
    expect(tables(replaced)?.map((line) => line.replaceAll(/ +/g, ' '))).toEqual([
      ...['## One', '| reader | time |', '| ours | 1 |'],
      ...['## Two', '| reader | time |', '| ours | 9 |'],
      ...['## Three', '| reader | time |', '| ours | 3 |', '## Targets on Node 20'],
      '| what | to reach | measured | verdict | beside |',
      ...['One 1', 'Two 9', 'Three 3'].map((text) => {
        const [title, time] = text.split(' ');
        return `| ${title} is fast | at most 2 | ${time} | pass | |`;
      }),
    ]);
    expect(
      replaced.match(/- measured apart from the rest: 2026-02-02, Node 20\.1\.2/g),
    ).toHaveLength(2);
    expect(replaced).toContain('- date: 2026-01-01');
  });

  test('gets nothing but the targets of another version of Node', () => {
    const run = { node: '22.5.0, more' };
    const other = files(page, run, [{ ...section('One', '7'), chart }], true);
    expect([...other.keys()]).toEqual(['results.md']);
    const added = other.get('results.md') ?? '';
    expect(added.startsWith(page.trimEnd())).toBe(true);
    expect(added.slice(page.length)).toMatch(/^\n## Targets on Node 22\n\nNode 22\.5\.0, [^#]* 7 /);
    const anew = files(added, {}, [section('One', '5')], true).get('results.md') ?? '';
    const targets = ['## Targets on Node 20', '## Targets on Node 22'];
    expect(anew.match(/^## .*$/gm)).toEqual(['## One', ...targets]);
  });
});

describe('a table of another page', () => {
  const results =
    '## Reading, cold\n\n| reader | open | all |\n| --- | --: | --: |\n| ours | 3 s | 4 s |';
  const page = (title: string, ...rows: string[]): string =>
    ['Text.', '', `<!-- results: ${title} -->`, ...rows, '', 'More.', ''].join('\n');
  const head = ['| from the disk |     all |', '| ------------- | ------: |'];

  test('takes the figures of its section, and keeps its emphasis; without one it stays', () => {
    const old = page('Reading, cold', ...head, '| **ours** | **9 ms** |', '| other | 8 ms |');
    const body = ['| **ours**      | **4 s** |', '| other         |    8 ms |'];
    expect(report.refreshTables(old, results)).toBe(page('Reading, cold', ...head, ...body));
    const unknown = page('Saving', ...head, '| ours          | **9 s** |');
    expect(report.refreshTables(unknown, results)).toBe(unknown);
  });

  test('may explain a heading of the results, which follows in parentheses', () => {
    const explained = [
      '| from the disk | every byte (all) |',
      '| ------------- | ---------------: |',
    ];
    const pageOf = (figure: string) =>
      page('Reading, cold', ...explained, `| ours          |           ${figure.padStart(6)} |`);
    expect(report.refreshTables(pageOf('9 s'), results)).toBe(pageOf('4 s'));
  });

  test.each(report.PAGES)('of %s names a section that exists', (path) => {
    const [own, measured] = [textOf(path), textOf('benchmarks/results/results.md')];
    const titles = Array.from(own.matchAll(/<!-- results: (.+) -->\n\|/g), ([, title]) => title);
    expect(titles.length).toBeGreaterThan(0);
    expect(titles.filter((title) => !measured.includes(`\n## ${title}`))).toEqual([]);
  });
});
