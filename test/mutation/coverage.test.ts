import { describe, expect, it } from 'vitest';
import { coverageOf, planOf } from './coverage.mjs';

/** The runner's record of a file: mutants that loading, hooks and tests reach, as pairs of a mutant and a number. */
const entries = [
  { path: 'a', loading: [[1, 3]] },
  { path: 'a', hooks: [[2, 1]] },
  { path: 'a', index: 0, name: 'long', ms: 400, state: 'pass', reached: [[0, 7]] },
  { path: 'a', hooks: [] },
  { path: 'a', index: 1, name: 'failing', ms: 1, state: 'fail', reached: [[0, 1]] },
  { path: 'b', loading: [] },
  { path: 'b', index: 0, name: 'slow', ms: 9000, state: 'pass', reached: [[0, 1]] },
  { path: 'b', index: 1, name: 'quick', ms: 2, state: 'pass', reached: [[0, 5]] },
  { path: 'b', index: 2, name: 'other', ms: 2, state: 'pass', reached: [[3, 1]] },
];
const files = coverageOf(entries);

function planned(id: number): unknown {
  const { rounds, alone } = planOf(id, files, [0, 1, 2]);
  return { rounds, alone };
}

describe('a mutant', () => {
  it('is run by the tests that reach it, quick ones first, without slow and failing ones', () => {
    expect(planned(0)).toEqual({
      rounds: [
        { path: 'b', indexes: [1] },
        { path: 'a', indexes: [0] },
      ],
      alone: undefined,
    });
  });

  it('that is reached while modules are loaded is run alone, by all tests that come to its file', () => {
    const alone = [
      { path: 'b', indexes: [1] },
      { path: 'a', indexes: [0] },
    ];
    expect(planned(1)).toEqual({ rounds: [], alone });
  });

  it('that a hook reaches is run by all tests of the file, and alone', () => {
    expect(planned(2)).toMatchObject({ rounds: [{ path: 'a', indexes: [0] }], alone: {} });
  });

  it('that no test reaches has no rounds', () => {
    expect(planned(9)).toEqual({ rounds: [], alone: undefined });
  });

  it('may be reached ten times as often as without a fault, and a bit', () => {
    expect(planOf(0, files, []).limit).toBe(10 * 14 + 100_000);
  });
});

it('a file of tests that cannot be loaded is an error', () => {
  expect(() => coverageOf([{ path: 'a', loading: [], isBroken: true }])).toThrow('a cannot be');
});
