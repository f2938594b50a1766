import { expect, it } from 'vitest';
import { namesTest } from '../../../src/cli/sources/glob.js';

it.each([
  ['*', 'anything', true],
  ['', '', true],
  ['', 'a', false],
  ['*.weight', 'a.b.weight', true],
  ['*.weight', 'a.weights', false],
  ['model.layers.?.mlp.*', 'model.layers.3.mlp.up', true],
  ['model.layers.?.mlp.*', 'model.layers.13.mlp.up', false],
  ['a*b*c', 'axbxbxc', true],
  ['a*b*c', 'axbxbx', false],
  ['a.b', 'axb', false],
  ['[ab]', 'a', false],
])('%j matches %j: %j', (pattern, name, isMatch) => {
  expect(namesTest([pattern])?.(name)).toBe(isMatch);
  expect(namesTest([], [pattern])?.(name)).toBe(!isMatch);
});
