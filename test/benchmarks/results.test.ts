/** What the benchmarks show: verdicts, tables, charts, the tables of other pages, and the package of the rivals. */
import { describe, expect, test } from 'vitest';
import { barChart } from '../../benchmarks/chart.mjs';
import { CONTENDERS } from '../../benchmarks/contenders.mjs';
import { Measured } from '../../benchmarks/measure.mjs';
import * as report from '../../benchmarks/report.mjs';
import { sectionOf } from '../../benchmarks/section.mjs';
import { textOf } from '../support/source-tree.js';

const chart = {
  file: 'some.svg',
  title: 'Title "quoted"',
  series: ['opened', 'every byte'],
  bars: new Map([
    ['a <rival> & more', [100, 100]],
    ['ours', [Number.NaN, 50]],
  ]),
  emphasis: 'ours',
  format: (value: number) => `${value} ms`,
};

test('a chart has a bar for every value, on one scale from zero, the shortest first', () => {
  const svg = barChart(chart, 'below');
  const bars = Array.from(svg.matchAll(/width="([\d.]+)" height="11" rx/g), ([, width]) =>
    Number(width),
  );
  const [mine = 0, ...theirs] = bars;
  expect(theirs).toHaveLength(2);
  for (const width of theirs) expect(mine / width).toBeCloseTo(0.5, 2);
  const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
  for (const [, x, y] of svg.matchAll(/ x="([\d.]+)" y="([\d.]+)"/g)) {
    expect(Number(x) < Number(width) && Number(y) < Number(height)).toBe(true);
  }
  for (const part of [
    'a &lt;rival&gt; &amp; more',
    'Title &quot;quoted&quot;',
    '>below<',
    'class="ours s1"',
  ]) {
    expect(svg).toContain(part);
  }
  expect(barChart({ ...chart, bars: new Map() }, '')).toMatch(/^<svg .*<\/svg>\n$/s);
});

test('a section has a row for each contender, and targets that are met at their limit', () => {
  const { ours: mine, read: theirs, direct: absent } = CONTENDERS;
  const rows = [
    { contender: mine, lines: [{ time: 1 }, { time: 3 }, { time: 2 }], reason: undefined },
    { contender: theirs, lines: [{ time: 4, size: 3e6 }], reason: undefined },
    { contender: absent, lines: [], reason: 'gone' },
  ];
  const page = `
    ## Of {count}
    | who | time = time | ratio = time / ours.time × | range = span(time) | label = $label |
    - {reasons}
    - costs {= read.time / ours.time ×}
    > met | at most 4 ms | read.time
    > faster | at least 3 × | read.time / ours.time
    > slower | at most 1/2 × | all:ours.time / read.time
    > unknown | at least 1 s | direct.time | here = ours.time & there = direct.time & range = ours.span(time)
    > size | at most 2 MB | read.size | by $two = $two #`;
  const values = () => ({
    count: 3,
    two: 2,
    label: ({ method }: { method: string }) => method,
  });
  expect(sectionOf({ page, values }, { all: new Measured(rows) }, {}, {})).toEqual({
    title: 'Of 3',
    rows: [
      ['who', 'time', 'ratio', 'range', 'label'],
      [mine.name, '2.00 ms', '1.00 ×', '1.00 ms – 3.00 ms', 'mapped'],
      [theirs.name, '4.00 ms', '2.00 ×', '4.00 ms – 4.00 ms', 'read'],
      [absent.name, '–', '–', '–', 'direct'],
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

describe('a whole run', () => {
  const section = {
    title: 'Every byte',
    rows: [
      ['reader', 'time'],
      ['safetensors-mmap', '1 ms'],
    ],
    notes: ['a rival was not measured: it is not there'],
    targets: [['fast', 'at most 2', '1', 'pass', '']],
  };
  const facts = { date: '2026-01-01', processor: 'a CPU', model: '1 GB', node: '20.1.2, more' };
  const files: Map<string, string> = report.resultFiles(facts, [{ ...section, chart }, section]);
  const page = files.get('results.md') ?? '';

  test('has a page with the machine, the charts, the verdicts, the tables and what is missing', () => {
    expect(files.get('some.svg')).toBe(barChart(chart, '1 GB · a CPU · 2026-01-01'));
    for (const part of [
      '- date: 2026-01-01',
      '![Title "quoted"](some.svg)',
      '## Targets on Node 20\n\nNode 20.1.2, 2026-01-01, 1 GB:\n\n| what',
      '| fast',
      '## Every byte\n\n| reader ',
      'not measured: it is not there',
      'lazy figures',
    ]) {
      expect(page).toContain(part);
    }
  });

  test('has a page to which the targets of other versions of Node are added', () => {
    const added = report.addTargets(page, { ...facts, node: '22.5.0, more' }, [section]);
    expect(added.startsWith(page.trimEnd())).toBe(true);
    expect(added.slice(page.length)).toMatch(/^\n## Targets on Node 22\n\nNode 22\.5\.0, /);
    const again = report.addTargets(added, { ...facts, node: '20.9.9, more' }, [section]);
    const headings = ['## Targets on Node 22', '## Targets on Node 20'];
    expect(again.match(/^## Targets on Node \d+$/gm)).toEqual(headings);
    expect(again).toMatch(/Node 20.9.9, (?!.*Node 20\.1\.2)/s);
  });

  test('has a page on which a later run replaces its own tables and targets', () => {
    const later = { ...facts, date: '2026-02-02' };
    const rows = [section.rows[0], ['safetensors-mmap', '9 ms']];
    const targets = [
      ['fast', 'at most 2', '3', 'FAIL', ''],
      ['new', 'at most 2', '1', 'pass', ''],
    ];
    const other = { ...section, title: 'Something else', targets: [] };
    const replaced = report.replaceSections(page, later, [{ ...section, rows, targets }, other]);
    expect(replaced).toMatch(/^## Every byte\n\n(\|.*\n)+\| safetensors-mmap \| 9 ms \|\n\n- /m);
    expect(replaced).toContain('\n- measured apart from the rest: 2026-02-02, Node 20.1.2\n');
    expect(replaced).toContain('- date: 2026-01-01');
    expect(replaced.indexOf('## Something else')).toBeLessThan(replaced.indexOf('## Targets'));
    expect(replaced.match(/^\| (fast|new) .*$/gm)).toEqual([
      expect.stringMatching(/^\| fast \| at most 2 \| +3 \| +FAIL \|/),
      expect.stringMatching(/^\| new +\| at most 2 \| +1 \| +pass \|/),
    ]);
    const newer = report.replaceSections(page, { ...later, node: '22.5.0' }, [section]);
    expect(newer).toContain('\n\n## Targets on Node 22\n\nNode 22.5.0, 2026-02-02');
  });
});

describe('a table of another page', () => {
  const section = (title: string, open: string, all: string): string =>
    `## ${title}\n\n| reader | open | all |\n| --- | --: | --: |\n| ours | ${open} | ${all} |`;
  const results = [
    section('Reading, warm', '1 ms', '2 ms'),
    section('Reading, cold', '3 s', '4 s'),
  ].join('\n\n');
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

  test.each(report.PAGES)('of %s names a section that there is, and has its figures', (path) => {
    const [own, measured] = [textOf(path), textOf('benchmarks/results/results.md')];
    const titles = Array.from(own.matchAll(/<!-- results: (.+) -->\n\|/g), ([, title]) => title);
    expect(titles.length).toBeGreaterThan(0);
    expect(titles.filter((title) => !measured.includes(`\n## ${title}`))).toEqual([]);
    const unaligned = (page: string): string => page.replace(/ +(?=\|)|(?<=\|) +|-+/g, '');
    expect(unaligned(report.refreshTables(own, measured))).toBe(unaligned(own));
  });
});

test('every rival may be missing, and the lock file has no addresses', () => {
  const manifest = JSON.parse(textOf('benchmarks/rivals/package.json')) as Record<string, unknown>;
  expect(manifest).toMatchObject({ private: true });
  expect(manifest).not.toHaveProperty('dependencies');
  const { packages } = JSON.parse(textOf('benchmarks/rivals/package-lock.json')) as {
    packages: Record<string, { resolved?: string; optional?: boolean }>;
  };
  const rivals = Object.entries(packages).filter(([path]) => path !== '');
  expect(rivals.length).toBeGreaterThan(3);
  expect(
    rivals.filter(([, { resolved, optional }]) => resolved !== undefined || !optional),
  ).toEqual([]);
});
