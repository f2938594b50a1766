import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exclusionTest, globTest, targetTest } from '../../../src/file/hub/module-patterns.js';

describe('globTest', () => {
  it('agrees with a regular expression', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 });
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '?'), maxLength: 10 });
    fc.assert(
      fc.property(text, name, fc.boolean(), (pattern, candidate, hasSingle) => {
        const single = hasSingle ? '.' : '\\?';
        const regex = new RegExp(`^${pattern.replaceAll('?', single).replaceAll('*', '.*')}$`);
        expect(globTest(pattern, hasSingle ? '?' : undefined)(candidate)).toBe(
          regex.test(candidate),
        );
      }),
      { numRuns: 4000 },
    );
  });
});

describe('targetTest', () => {
  it.each([
    ['a.b', 'a.b', true],
    ['a.b', 'a.b.c', false],
    ['re:a\\.b', 'a.b.c', true],
    ['re:a\\.b$', 'a.b.c', false],
    ['re:^.*lm_head', 'x.lm_head.y', true],
    ['re:b', 'a.b', false],
    ['re:a(b|c)', 'ab', false],
    ['re:a+', 'a', false],
  ])('%s and %s: %s', (target, name, expected) => {
    expect(targetTest(target)(name)).toBe(expected);
  });
});

describe('exclusionTest', () => {
  it('looks for a part, or takes a glob as a whole', () => {
    expect(exclusionTest('head')('lm_head.weight')).toBe(true);
    expect(exclusionTest('head*')('lm_head.weight')).toBe(false);
    expect(exclusionTest('*head*')('lm_head.weight')).toBe(true);
    expect(exclusionTest('l?_*')('lm_head.weight')).toBe(false);
  });
});
