/** What the benchmarks show: verdicts, tables, charts, and the package of the rivals. */
import { describe, expect, test } from 'vitest';
import { barChart, type Chart } from '../../benchmarks/chart.js';
import { PAGES, refreshTables } from '../../benchmarks/pages.js';
import {
  addTargets,
  markdownSection,
  replaceSections,
  resultFiles,
  type Section,
} from '../../benchmarks/report.js';
import { atLeast, atMost, beside, markdownTargets, ofNode } from '../../benchmarks/targets.js';
import { textOf } from '../support/source-tree.js';

const chart: Chart = {
  file: 'some.svg',
  title: 'Title "quoted"',
  series: ['opened', 'every byte'],
  bars: new Map([
    ['a <rival> & more', [100, 100]],
    ['ours', [1, 50]],
  ]),
  emphasis: 'ours',
  format: (value) => `${value} ms`,
};

describe('a chart', () => {
  const svg = barChart(chart, 'below');
  const barsOf = (drawing: string) =>
    Array.from(drawing.matchAll(/width="([\d.]+)" height="11" rx/g), ([, width]) => Number(width));

  test('has a bar for every value, on one scale from zero, the shortest first', () => {
    const widths = barsOf(svg);
    expect(widths).toHaveLength(4);
    const [lazy = 0, touched = 0, rival = 0] = widths;
    expect(touched / rival).toBeCloseTo(0.5, 2);
    expect(lazy / rival).toBeCloseTo(0.01, 2);
    expect(svg.indexOf('>ours<')).toBeLessThan(svg.indexOf('>a &lt;rival'));
  });

  test('stays inside its frame', () => {
    const [, width = '0', height = '0'] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
    for (const [, x = '', y = ''] of svg.matchAll(/ x="([\d.]+)" y="([\d.]+)"/g)) {
      expect(Number(x)).toBeLessThan(Number(width));
      expect(Number(y)).toBeLessThan(Number(height));
    }
  });

  test('escapes text and marks the line that is emphasised', () => {
    expect(svg).toContain('a &lt;rival&gt; &amp; more');
    expect(svg).toContain('Title &quot;quoted&quot;');
    expect(svg).toContain('>below<');
    expect(svg).toContain('class="ours s1"');
    expect(svg).toMatch(/<text [^>]*class="ours">ours<\/text>/);
    expect(svg).toContain('prefers-color-scheme:dark');
  });

  test('leaves a value out that was not measured', () => {
    const one = barChart({ ...chart, bars: new Map([['x', [Number.NaN, 2]]]) }, '');
    expect(barsOf(one)).toHaveLength(1);
    expect(one).not.toContain('NaN');
  });

  test('of nothing is still an image', () => {
    expect(barChart({ ...chart, bars: new Map() }, '')).toMatch(/^<svg .*<\/svg>\n$/s);
  });
});

describe('targets', () => {
  const ratio = (value: number): string => `${value} ×`;
  const table = markdownTargets([
    atMost('small', 1.05, 1.05, ratio),
    atLeast('large', 7.99, 8, ratio, 'a rival 9 ms'),
    atLeast('unknown', Number.NaN, 1, ratio),
  ]);

  test('are met at their limit, and missed without a measurement', () => {
    expect(table).toMatch(/small +\| +at most 1\.05 × \| +1\.05 × \| +pass \|/);
    expect(table).toMatch(/large +\| +at least 8 × \| +7\.99 × \| +FAIL \| +a rival 9 ms \|/);
    expect(table).toMatch(/unknown +\| +at least 1 × \| +– \| not measured \|/);
  });

  test('have figures of rivals beside them, without those that were not measured', () => {
    expect(beside(ratio, { one: 2, two: Number.NaN, three: 4 })).toBe('one 2 ×, three 4 ×');
    expect(beside(ratio, { two: Number.NaN })).toBe('');
  });

  test('may depend on the release of Node', () => {
    const limitIn = (node: string): number => ofNode(node, { 20: 450, 22: 400, 24: 350 });
    expect(['20.20.2', '22.1.0', '24.0.0', '26.3.1'].map(limitIn)).toEqual([450, 400, 350, 350]);
  });
});

describe('a whole run', () => {
  const section: Section = {
    title: 'Every byte',
    rows: [
      ['reader', 'time'],
      ['safetensors-mmap', '1 ms'],
    ],
    notes: ['a rival was not measured: it is not there'],
    targets: [atMost('fast', 1, 2, String)],
  };
  const facts = { date: '2026-01-01', processor: 'a CPU', model: '1 GB', node: '20.1.2, more' };
  const files = resultFiles(facts, [{ ...section, chart }, section]);

  test('has a page and the charts that it shows', () => {
    expect([...files.keys()]).toEqual(['results.md', 'some.svg']);
    expect(files.get('some.svg')).toBe(barChart(chart, '1 GB · a CPU · 2026-01-01'));
  });

  test('has a page with the machine, the charts, the verdicts, the tables and what is missing', () => {
    for (const part of [
      '- date: 2026-01-01',
      '![Title "quoted"](some.svg)',
      '## Targets on Node 20\n\nNode 20.1.2, 2026-01-01, 1 GB:\n\n| what',
      '| fast',
      '## Every byte\n\n| reader ',
      'not measured: it is not there',
      'lazy figures',
    ]) {
      expect(files.get('results.md')).toContain(part);
    }
  });

  test('has a page to which the targets of other versions of Node are added', () => {
    const page = files.get('results.md') ?? '';
    const added = addTargets(page, { ...facts, node: '22.5.0, more' }, [section]);
    expect(added.startsWith(page.trimEnd())).toBe(true);
    expect(added.slice(page.length)).toMatch(/^\n## Targets on Node 22\n\nNode 22\.5\.0, /);
    const again = addTargets(added, { ...facts, node: '20.9.9, more' }, [section]);
    expect(again.match(/^## Targets on Node \d+$/gm)).toEqual([
      '## Targets on Node 22',
      '## Targets on Node 20',
    ]);
    expect(again).toContain('Node 20.9.9, ');
    expect(again).not.toContain('Node 20.1.2, ');
    expect(again).toContain('## Every byte');
  });

  test('has a page on which a later run replaces its own tables and targets', () => {
    const page = files.get('results.md') ?? '';
    const again = {
      ...section,
      targets: [atMost('fast', 3, 2, String), atMost('new', 1, 2, String)],
    };
    const rows = [...section.rows.slice(0, 1), ['safetensors-mmap', '9 ms']];
    const other = { ...section, title: 'Something else', targets: [] };
    const later = { ...facts, date: '2026-02-02' };
    const replaced = replaceSections(page, later, [{ ...again, rows }, other]);
    expect(replaced).toMatch(/^## Every byte\n\n(\|.*\n)+\| safetensors-mmap \| 9 ms \|\n\n- /m);
    expect(replaced).toContain('\n- measured apart from the rest: 2026-02-02, Node 20.1.2\n');
    expect(replaced).toContain('- date: 2026-01-01');
    expect(replaced.indexOf('## Something else')).toBeLessThan(replaced.indexOf('## Targets'));
    expect(replaced.match(/^\| (fast|new) .*$/gm)).toEqual([
      expect.stringMatching(/^\| fast \| at most 2 \| +3 \| +FAIL \|/),
      expect.stringMatching(/^\| new +\| at most 2 \| +1 \| +pass \|/),
    ]);
    const newer = replaceSections(page, { ...later, node: '22.5.0' }, [again]);
    expect(newer).toContain('\n\n## Targets on Node 22\n\nNode 22.5.0, 2026-02-02');
    expect(newer).toMatch(/^\| fast \|.* pass \|/m);
  });

  test('shows a section without notes by its table alone', () => {
    const text = markdownSection({ ...section, notes: [] });
    expect(text).toBe(
      '## Every byte\n\n| reader           | time |\n| ---------------- | ---: |\n| safetensors-mmap | 1 ms |',
    );
  });
});

describe('a table of another page', () => {
  const section = (title: string, open: string, all: string): string =>
    `## ${title}\n\n| reader | open | all |\n| --- | --: | --: |\n| ours | ${open} | ${all} |`;
  const results = [
    section('Reading, warm', '1 ms', '2 ms'),
    section('Reading, cold', '3 s', '4 s'),
  ];
  const page = (title: string, ...rows: string[]): string =>
    ['Text.', '', `<!-- results: ${title} -->`, ...rows, '', 'More.', ''].join('\n');
  const head = ['| from the disk |     all |', '| ------------- | ------: |'];
  const text = results.join('\n\n');

  test('takes the figures of its section, and keeps its emphasis', () => {
    const old = page('Reading, cold', ...head, '| **ours** | **9 ms** |', '| other | 8 ms |');
    const body = ['| **ours**      | **4 s** |', '| other         |    8 ms |'];
    expect(refreshTables(old, text)).toBe(page('Reading, cold', ...head, ...body));
  });

  test('stays as it is without a comment, or when the results have no such section', () => {
    const rows = [...head, '| ours          | **9 s** |'];
    const unmarked = [...rows, ''].join('\n');
    expect(refreshTables(unmarked, text)).toBe(unmarked);
    expect(refreshTables(page('Saving', ...rows), text)).toBe(page('Saving', ...rows));
  });

  test.each(PAGES)('of %s names a section that there is, and has its figures', (path) => {
    const [own, measured] = [textOf(path), textOf('benchmarks/results/results.md')];
    const titles = Array.from(own.matchAll(/<!-- results: (.+) -->\n\|/g), ([, title]) => title);
    expect(titles.length).toBeGreaterThan(0);
    expect(titles.filter((title) => !measured.includes(`\n## ${title}`))).toEqual([]);
    const unaligned = (page: string): string => page.replace(/ +(?=\|)|(?<=\|) +|-+/g, '');
    expect(unaligned(refreshTables(own, measured))).toBe(unaligned(own));
  });
});

describe('the package of the rivals', () => {
  test('is private, and every rival may be missing', () => {
    const manifest = JSON.parse(textOf('benchmarks/package.json')) as Record<string, unknown>;
    expect(manifest).toMatchObject({ private: true });
    expect(manifest).not.toHaveProperty('dependencies');
    expect(manifest).toHaveProperty(['optionalDependencies', '@riaskov/mmap-io']);
  });

  test('has a lock file without addresses', () => {
    const { packages } = JSON.parse(textOf('benchmarks/package-lock.json')) as {
      packages: Record<string, { resolved?: string; optional?: boolean }>;
    };
    const rivals = Object.entries(packages).filter(([path]) => path !== '');
    expect(rivals.length).toBeGreaterThan(3);
    expect(
      rivals.filter(([, { resolved, optional }]) => resolved !== undefined || !optional),
    ).toEqual([]);
  });
});
