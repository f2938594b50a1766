import { describe, expect, it } from 'vitest';
import { mutantsOf } from './mutants.mjs';
import { keyOf, type Numbered, sameSample, sampleOf, withOccurrences } from './sample.mjs';

const NAMES = Array.from({ length: 40 }, (_, i) => `f${i}`);

function functionOf(name: string): string {
  return `export function ${name}(a: number, b: number): boolean {\n  return a < b;\n}\n`;
}

function faultsOf(text: string, path = 'src/a.ts'): Numbered[] {
  return withOccurrences(mutantsOf(path, text));
}

const TEXT = NAMES.map(functionOf).join('');
const keysOf = (mutants: readonly Numbered[]): string[] => mutants.map(keyOf);

describe('a sample', () => {
  it('depends on the seed only', () => {
    const sample = keysOf(sampleOf(faultsOf(TEXT), 7, 10));
    expect(new Set(sample).size).toBe(10);
    expect(keysOf(sampleOf(faultsOf(TEXT).reverse(), 7, 10))).toEqual(sample);
    expect(keysOf(sampleOf(faultsOf(TEXT), 8, 10))).not.toEqual(sample);
  });

  it('of more faults begins with the smaller sample', () => {
    const sample = keysOf(sampleOf(faultsOf(TEXT), 7, 10));
    expect(keysOf(sampleOf(faultsOf(TEXT), 7, 20)).slice(0, 10)).toEqual(sample);
  });

  it('stays the same when lines move', () => {
    const moved = `// A comment.\n\n${NAMES.toReversed().map(functionOf).join('\n')}`;
    expect(keysOf(sampleOf(faultsOf(moved), 7, 10))).toEqual(
      keysOf(sampleOf(faultsOf(TEXT), 7, 10)),
    );
  });

  it('loses only faults of a function that is removed', () => {
    const sample = keysOf(sampleOf(faultsOf(TEXT), 7, 10));
    const [removed] = NAMES.filter((name) => sample.some((key) => key.includes(`"${name}"`)));
    const rest = NAMES.filter((name) => name !== removed).map(functionOf);
    const kept = sample.filter((key) => !key.includes(`"${removed}"`));
    expect(kept.length).toBeLessThan(10);
    expect(keysOf(sampleOf(faultsOf(rest.join('')), 7, 10)).slice(0, kept.length)).toEqual(kept);
  });
});

it('tells equal faults of a function apart', () => {
  const line = '  if (a < b) count++;\n';
  const faults = faultsOf(`function f(a: number, b: number, count: number) {\n${line}${line}}`);
  const ends = faults.filter(({ fault }) => fault === 'a < b → true');
  expect(ends.map(({ occurrence }) => occurrence)).toEqual([0, 1]);
  expect(new Set(keysOf(faults)).size).toBe(faults.length);
});

it('finds the faults of an earlier sample, and lists those that are gone', () => {
  const sample = keysOf(sampleOf(faultsOf(TEXT), 7, 10));
  const [first = '', ...others] = sample;
  const [, place] = JSON.parse(first) as string[];
  const changed = TEXT.replace(functionOf(`${place}`), '');
  const { found, gone } = sameSample(faultsOf(changed), sample);
  expect(gone).toContain(first);
  expect([...gone, ...keysOf(found)].toSorted()).toEqual([first, ...others].toSorted());
});
