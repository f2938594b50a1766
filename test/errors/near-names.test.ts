import process from 'node:process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nearNames } from '../../src/errors/near-names.js';

test('a forgotten prefix, another case, another number', () => {
  const names = ['model.norm.weight', 'model.layers.0.mlp.weight', 'lm_head.weight'];
  expect(nearNames('norm.weight', names)).toEqual(['model.norm.weight']);
  expect(nearNames('LM_HEAD.Weight', names)).toEqual(['lm_head.weight']);
  expect(nearNames('model.layers.9.mlp.weight', names)).toEqual(['model.layers.0.mlp.weight']);
  expect(nearNames('vision', names)).toEqual([]);
  expect(nearNames('', names)).toEqual([]);
});

test('the best three, best first', () => {
  const names = ['layers.1', 'layers.2', 'layers.12x', 'layers.3', 'other'];
  expect(nearNames('layers.12', names)).toEqual(['layers.12x', 'layers.1', 'layers.2']);
});

test('of all names of a large model', () => {
  const names = Array.from(
    { length: 92_000 },
    (_, i) => `layers.${Math.floor(i / 1500)}.experts.${i % 1500}.up_proj`,
  );
  expect(nearNames('layers.60.experts.777x.up_proj', names)[0]).toBe(
    'layers.60.experts.777.up_proj',
  );
});

test('long names cost nothing', () => {
  expect(nearNames('x'.repeat(300), ['x'.repeat(299)])).toEqual([]);
  expect(nearNames('abc', ['x'.repeat(10 ** 6), 'abd'])).toEqual(['abd']);
});

test('names of 200 characters are compared, longer ones are not', () => {
  const [kept, long] = ['x'.repeat(200), 'x'.repeat(201)];
  expect(nearNames(kept, [long, kept])).toEqual([kept]);
  expect(nearNames(long, [kept, long])).toEqual([]);
});

test('the first and the last character count as all others do', () => {
  expect(nearNames('ab', ['xb', 'ax'])).toEqual([]);
  expect(nearNames('abc', ['xbc', 'abx', 'xbx'])).toEqual(['xbc', 'abx']);
  // No character counts for both ends.
  expect(nearNames('aaaa', ['aa'])).toEqual([]);
  expect(nearNames('abcde', ['abc', 'cde', 'ade', 'ab'])).toEqual(['abc', 'cde', 'ade']);
});

test('looks at a bounded number of names', () => {
  let looked = 0;
  function* endless(): Generator<string> {
    for (;;) yield `name ${looked++}`;
  }
  expect(nearNames('x', endless())).toEqual([]);
  expect(looked).toBeLessThan(150_000);
});

test('a part of a name: whole parts between dots first, then shorter names', () => {
  const names = [
    'h.0.ln_1.weight',
    'h.0.attn.c_attn.weight',
    'h.0.attn.c_attn.bias',
    'ln_f.weight',
  ];
  expect(nearNames('c_attn', names)).toEqual(['h.0.attn.c_attn.bias', 'h.0.attn.c_attn.weight']);
  const layers = ['layers.0.input_layernorm.weight', 'layers.1.norm1.weight', 'model.norm.weight'];
  expect(nearNames('norm', layers)).toEqual([...layers].reverse());
  expect(nearNames('Norm', layers)).toHaveLength(3);
  expect(nearNames('h', names)).toEqual([
    'h.0.ln_1.weight',
    'h.0.attn.c_attn.bias',
    'h.0.attn.c_attn.weight',
  ]);
  // One or two letters are in too many names by chance.
  expect(nearNames('c_', names)).toEqual([]);
});

test('a name with a prefix too many', () => {
  expect(nearNames('transformer.h.0.wte', ['wte', 'h.0.wte', 'e'])).toEqual(['h.0.wte', 'wte']);
});

test('any part of a name leads to the name', () => {
  const part = fc.stringMatching(/^[a-z_0-9]{1,12}$/);
  const path = fc.array(part, { minLength: 1, maxLength: 6 });
  const property = fc.property(path, fc.nat(), fc.nat(), (parts, from, count) => {
    const name = parts.join('.');
    const begin = from % parts.length;
    const chosen = parts.slice(begin, begin + 1 + (count % (parts.length - begin))).join('.');
    expect(nearNames(chosen.toUpperCase(), ['%', name, '?'])).toEqual([name]);
    const inside = name.slice(begin, begin + 3 + count);
    if (inside.length >= 3) expect(nearNames(inside, ['%', name, '?'])).toEqual([name]);
  });
  fc.assert(property, { seed: Number(process.env['SAFETENSORS_SEED'] ?? 20261128) });
});
