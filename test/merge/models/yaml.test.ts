/** Recipes in YAML: what the reader accepts means the same to a whole parser. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse, parseDocument, stringify } from 'yaml';
import { parseYaml } from '../../../src/merge/models/yaml.js';
import { Random } from '../../support/random.js';
import { pathOf } from '../fixtures.js';

const recipes = readdirSync(pathOf('.')).filter((name) => name.startsWith('mk-'));

it.each(recipes)('%s', (name) => {
  const text = readFileSync(pathOf(name, 'config.yml'), 'utf8');
  expect(parseYaml(text)).toEqual(parse(text));
});

/** A value that recipes may have. */
function someValue(r: Random, depth: number): unknown {
  const texts = [
    'a',
    './a b',
    "it's",
    '#x',
    'a: b',
    '- a',
    '0.5.1',
    'yes',
    '',
    ' a',
    '~',
    'x#y',
    '*',
    '[a',
  ];
  const scalars = [0, 1.5, -3e-7, true, false, null, ...texts, 'org/name@main', 'C:\\models\\a'];
  if (depth === 0 || r.chance(0.4)) return r.pick(scalars);
  const length = r.below(4);
  if (r.chance(0.5)) return Array.from({ length }, () => someValue(r, depth - 1));
  const key = (): string => r.pick(['a', 'b c', 'd-e', '0', 'x:y', "q'"]);
  return Object.fromEntries(Array.from({ length }, () => [key(), someValue(r, depth - 1)]));
}

describe('documents that a whole parser writes', () => {
  it('are read with the same values, in block and flow style, 300 times', () => {
    for (let number = 0; number < 300; number++) {
      const r = new Random(7, number);
      const value = someValue(r, 4);
      const style = { lineWidth: 0, indent: r.pick([2, 4]), indentSeq: r.chance(0.5) };
      const flow = r.chance(0.3) ? ({ collectionStyle: 'flow' } as const) : {};
      const strings = r.chance(0.3) ? ({ defaultStringType: 'QUOTE_DOUBLE' } as const) : {};
      const text = stringify(value, { ...style, ...flow, ...strings });
      expect(parseYaml(text), text).toEqual(parse(text));
    }
  });
});

describe('documents with a few random changes', () => {
  const marks = [
    ' ',
    '  ',
    '\n',
    ':',
    ': ',
    '-',
    '- ',
    '#',
    ' #',
    '"',
    "'",
    '[',
    ']',
    '{',
    '}',
    ',',
    '&a ',
    '*a',
  ];
  const texts = recipes.map((name) => readFileSync(pathOf(name, 'config.yml'), 'utf8'));

  it('are errors, or mean the same, 1500 times', () => {
    let read = 0;
    for (let number = 0; number < 1500; number++) {
      const r = new Random(9, number);
      let text = r.pick(texts);
      for (let change = r.from(1, 3); change > 0; change--) {
        const at = r.below(text.length);
        const inserted = r.pick([
          ...marks,
          '!t ',
          '|',
          '?',
          '0',
          '\t',
          '---\n',
          '<<',
          '~',
          '%',
          '.',
        ]);
        text = text.slice(0, at) + inserted + text.slice(at + r.below(3));
      }
      let own: unknown;
      try {
        own = parseYaml(text);
      } catch {
        continue;
      }
      read++;
      const whole = parseDocument(text);
      expect(whole.errors, text).toEqual([]);
      expect(own, text).toEqual(whole.toJS());
    }
    expect(read).toBeGreaterThan(150);
  });
});

it.each([
  ['a: !!str 1', 'tags'],
  ['a: |\n  b', 'block scalars'],
  ['a: 1\na: 2', 'duplicate key "a"'],
  ['a: b\n  c', 'several lines'],
  ['a: *b', 'unknown alias'],
  ['? a\n: b', 'line 1'],
  ['a: 1\n---\nb: 2', 'only one document'],
  ['%YAML 1.2\n---\na: 1', 'without directives'],
  ['a: [1, 2', 'not closed'],
  ['a: "b', 'must end on its line'],
  ['<<: {a: 1}', 'merge keys'],
  [`a: &x 1\nb: [${Array(101).fill('*x').join(', ')}]`, 'more than 100 aliases'],
  [`a: ${'['.repeat(101)}`, 'nested too deeply'],
  ['\ta: 1', 'tabs'],
])('%j is an error', (text, message) => {
  expect(() => parseYaml(text)).toThrow(message);
});

it('aliases stand for the same value', () => {
  expect(parseYaml('a: &x [1, {b: c}]\nd: *x # x\ne:\n- &y 2\n- *y\n')).toEqual({
    a: [1, { b: 'c' }],
    d: [1, { b: 'c' }],
    e: [2, 2],
  });
});
