import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { RenameError, renamer } from '../../../src/cli/sources/renames.js';
import { temporaryPath } from '../../support/make-file.js';

describe('a rule', () => {
  it.each([
    ['a=>b', 'a', 'b'],
    ['a=>b', 'ab', 'ab'],
    ['model.*=>*', 'model.layers.0.w', 'layers.0.w'],
    ['*=>encoder.*', 'w', 'encoder.w'],
    [
      'h.*.attn.*.w => layers.*.self_attn.*.weight',
      'h.11.attn.q.w',
      'layers.11.self_attn.q.weight',
    ],
    ['h.*.attn.*.w=>layers.*.weight', 'h.1.attn.q.w', 'layers.1.weight'],
    ['*.*=>*/*', 'a.b.c', 'a/b.c'],
    ['a*a=>*', 'aa', ''],
    ['a*a=>*', 'a', 'a'],
    ['ab*ba=>*', 'aba', 'aba'],
    ['*=>x', '', 'x'],
    ['a=>', 'a', ''],
    ['a=>b=>c', 'a', 'b=>c'],
    ['(.+)[x=>y', '(.+)[x', 'y'],
  ])('%s makes of %j %j', (rule, name, expected) => {
    expect(renamer([rule])?.(name)).toBe(expected);
  });

  it.each(['a', 'a->b', 'a=>*', 'a*=>*.*'])('%s is refused', (rule) => {
    expect(() => renamer([rule])).toThrow(RenameError);
  });
});

it('the first rule that matches counts', () => {
  const rename = renamer(['a.*=>x.*', 'a.b=>y', '*.c=>z']) as (name: string) => string;
  expect(['a.b', 'a.c', 'b.c', 'd'].map(rename)).toEqual(['x.b', 'x.c', 'z', 'd']);
  expect(renamer([])).toBeUndefined();
});

it('rules come from a file, too', () => {
  const path = temporaryPath('rules.txt');
  writeFileSync(path, 'a=>b\r\n\nc.* => d.*\n');
  const rename = renamer([`@${path}`, '*=>e']) as (name: string) => string;
  expect(['a', 'c.1', 'x'].map(rename)).toEqual(['b', 'd.1', 'e']);
  expect(() => renamer([`@${path}.missing`])).toThrow(/ENOENT/);
});
