import { describe, expect, it } from 'vitest';
import { limitOf, longestFirst, orderFor, recordName } from './suite-plan.mjs';

function file(project: string, path: string, ms: number, reached: number[], passed = 1) {
  return { project, path, ms, passed, reached: new Set(reached) };
}

const files = [
  file('slow', 'test/header/hostile.slow.test.ts', 50_000, [1]),
  file('unit', 'test/write/save.test.ts', 300, [1, 2]),
  file('unit', 'test/header/header.test.ts', 2000, [1]),
  file('unit', 'test/file/open.test.ts', 100, [1]),
  file('unit', 'test/file/close.test.ts', 1, [2]),
  file('unit', 'test/file/broken.test.ts', 1, [1, 2], 0),
];

function order(id: number, path: string, projects: string[]): string[] {
  return orderFor({ id, path }, files, projects).map((each) => each.path);
}

describe('a fault', () => {
  it('is tested by the files that reach it and have tests that pass', () => {
    expect(order(2, 'src/a.ts', [])).toEqual([
      'test/file/close.test.ts',
      'test/write/save.test.ts',
    ]);
    expect(order(3, 'src/a.ts', [])).toEqual([]);
  });

  it('is tested by short files first, and by those of its folder before files of a tenth', () => {
    expect(order(1, 'src/header/json/reader.ts', [])).toEqual([
      'test/file/open.test.ts',
      'test/header/header.test.ts',
      'test/write/save.test.ts',
      'test/header/hostile.slow.test.ts',
    ]);
  });

  it('is tested by all files of a project before the next one', () => {
    expect(order(1, 'src/header/header.ts', ['slow', 'unit'])[0]).toMatch(/slow/);
    expect(order(1, 'src/header/header.ts', ['unit', 'slow']).at(-1)).toMatch(/slow/);
  });
});

it('faults with the longest files come first', () => {
  const mutants = [3, 2, 1].map((id) => ({ id, path: 'src/a.ts' }));
  expect(longestFirst(mutants, files).map(({ id }) => id)).toEqual([1, 2, 3]);
});

it('the time limit of a file grows with its time', () => {
  expect(limitOf({ ms: 0 })).toBe(30_000);
  expect(limitOf({ ms: 1000 })).toBe(35_000);
});

it('each file of each project has its record, with a name that is no path', () => {
  const names = [
    recordName('a', 'test/b.test.ts'),
    recordName('b', 'test/b.test.ts'),
    recordName('a', 'test/c.test.ts'),
  ];
  expect(new Set(names).size).toBe(3);
  expect(names.filter((name) => /[/\\]/.test(name))).toEqual([]);
});
