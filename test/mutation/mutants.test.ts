import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { filesBelow, textOf } from '../support/source-tree.js';
import { type Equivalent, isKnown, type Mutant, mutantsOf, withSwitches } from './mutants.mjs';

const CLAMP = `
export function clamp(value: number, low: number, high: number): number {
  let clamped = value;
  if (value < low) clamped = low;
  else if (value > high) clamped = high;
  return clamped;
}`;

/** Runs a program with one of its faults, or with none. */
function run(text: string, call: string, active: number): unknown {
  const mutants = mutantsOf('a.ts', text).map((mutant, id) => ({ ...mutant, id }));
  const { outputText } = ts.transpileModule(withSwitches(text, mutants), {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS },
  });
  const program = new Function('exports', '__faults', `${outputText}; return ${call};`);
  return program({}, { at: (id: number) => id === active });
}

function faultsOf(text: string): string[] {
  return mutantsOf('a.ts', text).map(({ fault }) => fault);
}

describe('faults', () => {
  it('are of operators, conditions, constants and statements', () => {
    expect(faultsOf(CLAMP)).toEqual([
      'value < low → true',
      'value < low → false',
      'value < low → (value) <= (low)',
      'clamped = low; → nothing',
      'value > high → true',
      'value > high → false',
      'value > high → (value) >= (high)',
      'clamped = high; → nothing',
    ]);
    expect(faultsOf('a ??= -b + 3n * c++;')).toEqual([
      'a ??= -b + 3n * c++; → nothing',
      'a ??= -b + 3n * c++ → (a) = (-b + 3n * c++)',
      '-b + 3n * c++ → (-b) - (3n * c++)',
      '-b → (b)',
      '3n * c++ → (3n) / (c++)',
      '3n * c++ → (3n + 1n) * c++',
      'c++ → c--',
    ]);
  });

  it.each([
    'type A = 1 | -1;',
    "import { a } from './1.js';",
    'interface A { readonly 1: true }',
    'const a = { 1: b };',
    "const text = 'a' + b + `c`;",
  ])('are not where nothing runs or texts are joined: %s', (text) => {
    expect(faultsOf(text)).toEqual([]);
  });
});

describe('a program with switches', () => {
  it.each([
    [-1, [5, 1, 9]],
    [0, [1, 1, 1]],
    [1, [5, 0, 9]],
    [2, [5, 1, 9]],
    [3, [5, 0, 9]],
    [4, [9, 1, 9]],
    [5, [5, 1, 12]],
    [6, [5, 1, 9]],
    [7, [5, 1, 12]],
  ])('with that of fault %i on has this fault alone', (active, results) => {
    expect(run(CLAMP, '[5, 0, 12].map((value) => clamp(value, 1, 9))', active)).toEqual(results);
  });

  it('keeps the order of operations in faults of a long expression', () => {
    const text = 'const sum = (a: number, b: number, c: number) => a * b + c % 4;';
    const calls = mutantsOf('a.ts', text).map((_, active) => run(text, 'sum(6, 2, 5)', active));
    expect(run(text, 'sum(6, 2, 5)', -1)).toBe(13);
    expect(calls).toEqual([11, 4, 32, 12]);
  });

  it('can be compiled, whatever the source', () => {
    for (const path of filesBelow('src/header/json').filter((name) => name.endsWith('.ts'))) {
      const text = textOf(path);
      const mutants = mutantsOf(path, text).map((mutant, id) => ({ ...mutant, id }));
      const { diagnostics } = ts.transpileModule(withSwitches(text, mutants), {
        reportDiagnostics: true,
      });
      expect(diagnostics, path).toEqual([]);
    }
  });
});

describe('a fault that is the same program', () => {
  const [, , fault] = mutantsOf('a.ts', CLAMP) as [Mutant, Mutant, Mutant];
  const known = [
    { in: 'clamp', line: fault.lineText, faults: [fault.fault], reason: 'low is low' },
  ];

  it('is known in another file, at another line', () => {
    const moved = mutantsOf('b.ts', `const first = 1;\n${CLAMP}`);
    expect(moved.filter((mutant) => isKnown(known, mutant)).map(({ line }) => line)).toEqual([5]);
  });

  it('is not known in another function, nor are others of its line', () => {
    const renamed = mutantsOf('a.ts', CLAMP.replace('clamp(', 'limit('));
    expect(renamed.filter((mutant) => isKnown(known, mutant))).toEqual([]);
    expect(mutantsOf('a.ts', CLAMP).filter((mutant) => isKnown(known, mutant))).toEqual([fault]);
  });

  it('is still in the sources, and has a reason', () => {
    const text = readFileSync(new URL('equivalents.json', import.meta.url), 'utf8');
    const equivalents = JSON.parse(text) as Equivalent[];
    const lines = new Set(equivalents.map(({ line }) => line));
    const mutants = filesBelow('src')
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) => {
        const source = textOf(path);
        return [...lines].some((line) => source.includes(line)) ? mutantsOf(path, source) : [];
      });
    const single = equivalents.flatMap((known) =>
      known.faults.map((fault) => ({ ...known, faults: [fault] })),
    );
    const stale = single.filter((one) => !mutants.some((mutant) => isKnown([one], mutant)));
    expect(stale).toEqual([]);
    expect(equivalents.filter(({ reason }) => reason.length < 20)).toEqual([]);
  });
});
