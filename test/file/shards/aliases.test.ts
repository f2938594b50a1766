import { expect, test } from 'vitest';
import { locateTensor, type WrittenTensors } from '../../../src/file/shards/aliases.js';

const tensors: WrittenTensors = {
  metadata: new Map([
    ['head', 'embed'],
    ['norm', 'embed'],
    ['chain', 'head'],
    ['format', 'pt'],
  ]),
  shardOf: (name) => ['norm', 'embed'].indexOf(name),
};

test.each([
  ['a written name', 'embed', { shard: 1, name: 'embed' }],
  ['an alias', 'head', { shard: 1, name: 'embed' }],
  ['a written name that the metadata has too', 'norm', { shard: 0, name: 'norm' }],
  ['an alias of an alias', 'chain', null],
  ['metadata that is no alias', 'format', null],
  ['an unknown name', 'other', null],
])('%s', (_, name, place) => {
  expect(locateTensor(tensors, name)).toEqual(place);
});

test('a checkpoint without metadata has no aliases', () => {
  const plain = { ...tensors, metadata: null };
  expect(locateTensor(plain, 'embed')).toEqual({ shard: 1, name: 'embed' });
  expect(locateTensor(plain, 'head')).toBeNull();
});
