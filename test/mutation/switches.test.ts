import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { mutantsOf, withSwitches } from './mutants.mjs';
import { withPrelude } from './switches.mjs';

const SOURCE = `#!/usr/bin/env node
function count(list: readonly number[], limit: number): number {
  let found = 0;
  for (const value of list) if (value < limit) found++;
  return found;
}
`;

const mutants = mutantsOf('src/count.ts', SOURCE).map((mutant, id) => ({ ...mutant, id }));
const text = withPrelude(withSwitches(SOURCE, mutants, true));
const { outputText } = ts.transpileModule(text, {
  compilerOptions: { target: ts.ScriptTarget.ES2022 },
});

function idOf(fault: string): number {
  return mutants.findIndex((mutant) => mutant.fault === fault);
}

/** Calls `count` in a new realm. Returns its result, and the ids that were recorded. */
function run(call: string, env?: Record<string, string>): { result: unknown; reached: number[] } {
  const reached: number[] = [];
  const fs = {
    appendFileSync: (path: string, line: string): void => {
      expect([path, line.at(-1)]).toEqual([env?.['MUTATION_REACHED'], '\n']);
      reached.push(Number(line));
    },
  };
  const realm = env === undefined ? {} : { process: { env, getBuiltinModule: () => fs } };
  const program = outputText.replace(/^#!.*\n/, '');
  return { result: runInNewContext(`${program}; ${call}`, realm), reached };
}

describe('switches', () => {
  it('leave the program as it is without an active fault, also in browsers', () => {
    expect(run('count([1, 2, 3], 3)', {})).toEqual({ result: 2, reached: [] });
    expect(run('count([1, 2, 3], 3)')).toEqual({ result: 2, reached: [] });
  });

  it.each([
    ['value < limit → true', 3],
    ['value < limit → false', 0],
    ['value < limit → (value) <= (limit)', 3],
    ['found++ → found--', -2],
    ['found++; → nothing', 0],
    ['0 → (0 + 1)', 3],
  ])('activate the fault of the environment: %s', (fault, result) => {
    const env = { MUTATION_ACTIVE: `${idOf(fault)}` };
    expect(run('count([1, 2, 3], 3)', env)).toEqual({ result, reached: [] });
  });

  const MUTATION_REACHED = '/records/a file';

  it('record each fault once that is reached, and run the program without faults', () => {
    const { result, reached } = run('count([1, 2], 3)', { MUTATION_REACHED, MUTATION_ACTIVE: '1' });
    expect(result).toBe(2);
    expect(reached.length).toBe(new Set(reached).size);
    expect(reached).toContain(idOf('found++; → nothing'));
  });

  it('record faults of comparisons only where they change the outcome', () => {
    const faults = ['value < limit → true', 'value < limit → false'].map(idOf);
    const edge = idOf('value < limit → (value) <= (limit)');
    const reachedBy = (call: string): number[] =>
      run(call, { MUTATION_REACHED }).reached.filter((id) => [...faults, edge].includes(id));
    expect(reachedBy('count([1], 3)')).toEqual([faults[1]]);
    expect(reachedBy('count([4], 3)')).toEqual([faults[0]]);
    expect(reachedBy('count([3], 3)').toSorted()).toEqual([faults[0], edge].toSorted());
    expect(reachedBy('count([], 3)')).toEqual([]);
  });

  it('keep the first line of a program, and turn the type checker off', () => {
    expect(text.split('\n').slice(0, 2)).toEqual(['#!/usr/bin/env node', '// @ts-nocheck']);
    expect(withPrelude('const a = 1;')).toMatch(/^\/\/ @ts-nocheck\n.+;const a = 1;$/);
  });
});
