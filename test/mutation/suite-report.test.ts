import { describe, expect, it } from 'vitest';
import { formatKills, type Judged, killsBy, pageOf } from './suite-report.mjs';

function fault(line: number, project?: string): Judged {
  const killedBy = project && {
    project,
    path: 'test/a.test.ts',
    name: `test ${line}`,
    how: 'a test',
  };
  return {
    path: 'src/a.ts',
    line,
    place: 'f',
    lineText: `line ${line};`,
    fault: 'a | b → a & b',
    occurrence: 0,
    reachedBy: line - 1,
    ...(killedBy ? { killedBy } : {}),
  };
}

const faults = [fault(1), fault(2, 'unit'), fault(3, 'slow'), fault(4, 'unit'), fault(5)];
const report = {
  seed: 7,
  total: 5,
  projects: ['unit', 'slow'],
  minutes: '1.5',
  failing: [],
  gone: [],
  faults,
};

describe('kills', () => {
  it('are counted for the first project, the first two projects, and so on', () => {
    expect(killsBy(['unit', 'slow'], faults)).toEqual([
      ['unit', 2],
      ['unit + slow', 3],
    ]);
    expect(formatKills(['unit', 'slow'], faults, 5)).toBe('unit: 2, unit + slow: 3 of 5');
  });

  it('are counted together without a list of projects', () => {
    expect(killsBy([], faults)).toEqual([['all projects', 3]]);
  });
});

describe('the page', () => {
  it('has a row for each fault, with the test that kills it', () => {
    const page = pageOf(report);
    expect(page).toContain('Killed by unit: 2, unit + slow: 3 of 5 faults, in 1.5 minutes.\n');
    expect(page).toContain('| `src/a.ts:2` | `a \\| b → a & b` | test/a.test.ts: test 2 |\n');
    expect(page).toContain('**survivor**, not reached |');
    expect(page).toContain('**survivor**, reached by 4 files |');
    expect(page).not.toMatch(/Interrupted|earlier|not counted|no longer/);
  });

  it('lists what has not run, what is gone, and tests that fail without a fault', () => {
    const page = pageOf({ ...report, total: 9, gone: ['a key'], failing: ['test/b.test.ts: c'] });
    expect(page).toContain('Interrupted: 3 faults have not run.');
    expect(page).toContain('- no longer in the sources: `a key`');
    expect(page).toContain('- not counted, fails without a fault: test/b.test.ts: c');
  });

  it('compares with an earlier report', () => {
    const earlier = [fault(1, 'all'), fault(2, 'all'), fault(3, 'all'), fault(4), fault(5)];
    const page = pageOf(report, earlier);
    expect(page).toContain('Faults that the earlier run killed: unit: 1, unit + slow: 2 of 3.');
    expect(page).toContain('- no longer killed: `src/a.ts:1`');
  });
});
