/** Recipes in YAML: what is read means the same to another parser, and what it costs is limited. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse, parseDocument, stringify } from 'yaml';
import { parseYaml as parseRecipe } from '../../../src/merge/models/yaml.js';
import { Random } from '../../support/random.js';
import { pathOf } from '../fixtures.js';

const parseYaml = (text: string): unknown => parseRecipe(text, 'a.yml');

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

describe('documents that another parser writes', () => {
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

/** Objects of maps: keys that are no texts become JavaScript's text of them, such as that of null. */
function withTextKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withTextKeys);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries(
    Array.from(value, ([key, member]) => [String(withTextKeys(key)), withTextKeys(member)]),
  );
}

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
      const whole = parseDocument(text);
      // js-yaml demands less indentation of brackets, for instance.
      if (whole.errors.length > 0) continue;
      read++;
      expect(own, text).toEqual(withTextKeys(whole.toJS({ mapAsMap: true })));
    }
    expect(read).toBeGreaterThan(150);
  });
});

/** A document whose lists double ten times over: `first` with nine references to the list before it, and so on. */
function manyLaughs(levels: number): string {
  const lists = Array.from({ length: levels }, (_, level) => {
    const items = Array(9).fill(level === 0 ? 'lol' : `*l${level - 1}`);
    return `l${level}: &l${level} [${items.join(', ')}]`;
  });
  return lists.join('\n');
}

describe('tags are errors', () => {
  it.each([
    'a: !!str 1',
    'a: !x 1',
    'a: ! 1',
    'a: !<tag:yaml.org,2002:int> 1',
    'a: !<?> 1',
    'a: [0, !!int 1]',
    '- !!map {}',
    '!!seq\n- 1',
    '!x a: 1',
    'a: &b !x 1',
    'a: !x &b 1',
    'a: # 1\n  # !\n  &b # 2\n  !x 1',
    '%TAG ! tag:example.org,2000:\n---\na: !x 1',
    '? !x a\n: 1',
  ])('%j', (text) => {
    const line = text.slice(0, text.lastIndexOf('!')).split('\n').length;
    expect(() => parseYaml(text)).toThrow(
      `a.yml: the recipe cannot be parsed: line ${line}: tags are not supported`,
    );
  });

  it('but not their sign within texts', () => {
    const text = 'a: b!x\nc: "!x"\nd: |\n  !x *a\ne!: \'*\' # !x\nf: a *b\ng: &h!i 1\nj: *h!i';
    expect(parseYaml(text)).toEqual({
      a: 'b!x',
      c: '!x',
      d: '!x *a\n',
      'e!': '*',
      f: 'a *b',
      g: 1,
      j: 1,
    });
  });
});

describe('aliases', () => {
  it('stand for the same value', () => {
    expect(parseYaml('a: &x [1, {b: c}]\nd: *x # x\ne:\n- &y 2\n- *y\n')).toEqual({
      a: [1, { b: 'c' }],
      d: [1, { b: 'c' }],
      e: [2, 2],
    });
  });

  it('stand for the last value of an anchor that is set twice', () => {
    expect(parseYaml('- &x 1\n- *x\n- &x 2\n- *x')).toEqual([1, 1, 2, 2]);
  });

  it.each([
    ['in flow lists', (count: number) => `a: &x 1\nb: [${Array(count).fill('*x').join(', ')}]`],
    ['in block lists', (count: number) => `- &x 1\n${'- *x\n'.repeat(count)}`],
    ['on separate lines', (count: number) => `- &x 1\n${'-\n  # x\n  *x\n'.repeat(count)}`],
  ])('%s are up to 100', (_, textOf) => {
    expect(parseYaml(textOf(100))).toBeTruthy();
    expect(() => parseYaml(textOf(101))).toThrow(/: line \d+: more than 100 aliases$/);
  });

  it('count once, as keys and after empty values, too', () => {
    const pairs = Array.from({ length: 50 }, (_, i) => `k${i}:\n*x${i} : v`).join('\n');
    const anchors = Array.from({ length: 50 }, (_, i) => `a${i}: &x${i} y${i}`).join('\n');
    const text = `${anchors}\n${pairs}`;
    expect(parseYaml(text)).toEqual(parse(text));
  });

  it('stand for a limited number of values', () => {
    expect(parseYaml(manyLaughs(4))).toEqual(parse(manyLaughs(4), { maxAliasCount: -1 }));
    const message = 'the aliases are nested too deeply, or stand for more than 1048576 values';
    expect(() => parseYaml(manyLaughs(9))).toThrow(message);
    expect(() => parseYaml(manyLaughs(11))).toThrow(message);
  });

  it('are not nested at any depth', () => {
    const open = '['.repeat(90);
    // Keys that are integers come first, the largest last.
    const lists = Array.from({ length: 100 }, (_, i) => {
      return `${100 - i}: &a${i} ${open}${i === 0 ? '0' : `*a${i - 1}`}${']'.repeat(90)}`;
    });
    expect(() => parseYaml(lists.join('\n'))).toThrow('the aliases are nested too deeply');
  });

  it.each(['&a [*a]', '&a {b: {c: *a}}', 'a: &b\n  - *b'])('of their own parent: %j', (text) => {
    expect(() => parseYaml(text)).toThrow('the aliases are nested too deeply');
  });
});

it.each([
  ['a: 1\na: 2', 'line 2: duplicated mapping key'],
  ['{a: 1, "a": 2}', 'line 1: duplicated mapping key'],
  ['a:\n  b: 1\n  b: 1', 'line 3: duplicated mapping key'],
  ['__proto__: 1\n__proto__: 2', 'line 2: duplicated mapping key'],
  ['a: *b', 'line 1: unidentified alias "b"'],
  ['a: 1\n---\nb: 2', 'expected a single document in the stream, but found more'],
  ['a: [1, 2', 'line 2: unexpected end of the stream within a flow collection'],
  ['a: 1\nb: "c', 'line 3: unexpected end of the stream within a double quoted scalar'],
  [`a: ${'['.repeat(101)}`, 'line 1: nesting exceeded maxDepth (100)'],
  ['a: 1\n\tb: 1', 'line 2: '],
  ['a: \0', 'line 1: null byte is not allowed in input'],
])('%j is an error', (text, message) => {
  expect(() => parseYaml(text)).toThrow(
    expect.objectContaining({
      name: 'SafetensorsError',
      code: 'SAFETENSORS_INVALID_RECIPE',
      path: 'a.yml',
      message: expect.stringContaining(`a.yml: the recipe cannot be parsed: ${message}`),
    }),
  );
});

it('has no merge keys', () => {
  expect(parseYaml('a: &x {b: 1}\nc:\n  <<: *x')).toEqual({ a: { b: 1 }, c: { '<<': { b: 1 } } });
});

it('reads only types of the core schema', () => {
  const text = 'a: 2024-01-01\nb: yes\nc: 1_000\nd: 0o17\ne: 1e-3\nf: .inf\ng: ~\nh: 0x1F\ni: 1:30';
  expect(parseYaml(text)).toEqual(parse(text));
  expect(parseYaml(text)).toMatchObject({ a: '2024-01-01', b: 'yes', c: '1_000', d: 15, h: 31 });
});

it('__proto__ is a key like any other', () => {
  const value = parseYaml('__proto__: {polluted: 1}\na: {"__proto__": 2}') as { a: object };
  expect(Object.keys(value)).toEqual(['__proto__', 'a']);
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(Object.getPrototypeOf(value.a)).toBe(Object.prototype);
  expect('polluted' in {}).toBe(false);
});

it.each(['', '\n', '# x'])('%j has no value', (text) => {
  expect(parseYaml(text)).toBeNull();
});
