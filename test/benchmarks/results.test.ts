/** What the benchmarks show: verdicts, tables, charts, and the package of the rivals. */
import { describe, expect, test } from 'vitest';
import { type Bars, barChart } from '../../benchmarks/chart.js';
import { atLeast, atMost, markdownSection, markdownTargets } from '../../benchmarks/report.js';
import { drawCharts, type Measured, resultsPage } from '../../benchmarks/results.js';
import { textOf } from '../support/source-tree.js';

const lines: readonly Bars[] = [
  { label: 'ours', values: { lazy: 1, touched: 50 } },
  { label: 'a <rival> & more', values: { lazy: 100, touched: 100 } },
];
const series = [
  { name: 'lazy', title: 'opened' },
  { name: 'touched', title: 'every byte' },
];
const about = {
  title: 'Title "quoted"',
  subtitle: 'below',
  emphasis: 'ours',
  format: (value: number) => `${value} ms`,
};

describe('a chart', () => {
  const svg = barChart(lines, series, about);
  const widths = Array.from(svg.matchAll(/width="([\d.]+)" height="11" rx/g), ([, width]) =>
    Number(width),
  );

  test('has a bar for every value, on one scale from zero', () => {
    expect(widths).toHaveLength(4);
    const [lazy = 0, touched = 0, rival = 0] = widths;
    expect(touched / rival).toBeCloseTo(0.5, 2);
    expect(lazy / rival).toBeCloseTo(0.01, 2);
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
    expect(svg).toContain('class="ours s1"');
    expect(svg).toContain('prefers-color-scheme:dark');
  });

  test('leaves a value out that was not measured', () => {
    const one = barChart([{ label: 'x', values: { lazy: Number.NaN, touched: 2 } }], series, about);
    expect(one.match(/height="11" rx/g)).toHaveLength(1);
    expect(one).not.toContain('NaN');
  });

  test('of nothing is still an image', () => {
    expect(barChart([], series, about)).toMatch(/^<svg .*<\/svg>\n$/s);
  });
});

test('targets are met at their limit, and missed without a measurement', () => {
  const table = markdownTargets([
    atMost('small', 1.05, 1.05),
    atLeast('large', 7.99, 8),
    atLeast('unknown', Number.NaN, 1),
  ]);
  expect(table).toMatch(/small +\| +1\.05 \| +pass/);
  expect(table).toMatch(/large +\| +7\.99 \| +FAIL/);
  expect(table).toMatch(/unknown +\| +– \| not measured/);
});

describe('a whole run', () => {
  const section: Measured = {
    name: 'every-byte',
    seconds: 1,
    title: 'Every byte',
    rows: [
      ['reader', 'time'],
      ['safetensors-mmap', '1 ms'],
    ],
    notes: ['a rival was not measured: it is not there'],
    targets: [atMost('fast', 1, 2)],
    bars: [
      { label: 'slow', values: { handedOut: 9, everyByte: 9 } },
      { label: 'safetensors-mmap', values: { handedOut: 1, everyByte: 2 } },
    ],
    measurements: [],
  };
  const results = { machine: { date: '2026-01-01', model: '1 GB' }, trials: [section] };

  test('has a chart, the fastest first', () => {
    const charts = drawCharts(results);
    expect([...charts.keys()]).toEqual(['every-byte.svg']);
    const svg = charts.get('every-byte.svg') ?? '';
    expect(svg.indexOf('>safetensors-mmap<')).toBeLessThan(svg.indexOf('>slow<'));
    expect(svg).toContain('1 GB');
  });

  test('has a page with the machine, the charts, the verdicts, the tables and what is missing', () => {
    const page = resultsPage(results, ['every-byte.svg']);
    for (const part of [
      '- date: 2026-01-01',
      '![every-byte](every-byte.svg)',
      '| fast',
      '## Every byte',
      'not measured: it is not there',
      'lazy figures',
    ]) {
      expect(page).toContain(part);
    }
  });

  test('shows a section without rows by its notes', () => {
    const text = markdownSection({ ...section, rows: [] });
    expect(text).toBe('## Every byte\n\n- a rival was not measured: it is not there');
  });
});

describe('the package of the rivals', () => {
  test('is private, and every rival may be missing', () => {
    const manifest = JSON.parse(textOf('benchmarks/package.json')) as Record<string, unknown>;
    expect(manifest).toMatchObject({ private: true });
    expect(manifest).not.toHaveProperty('dependencies');
    expect(manifest).toHaveProperty('optionalDependencies.pickleparser');
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
