import { expect, test } from 'vitest';
import { shardNumbersOf } from '../../src/errors/shard-numbers.js';

test.each([
  ['model-00002-of-00163.safetensors', { number: 2, count: 163 }],
  ['folder/model-1-of-2.bin', { number: 1, count: 2 }],
  ['https://host/model-00001-of-00002.safetensors?download=true', { number: 1, count: 2 }],
  ['model-00001-of-00001.safetensors', null],
  ['model-00001-of-0.safetensors', null],
  ['model-of-00002.safetensors', null],
  ['model.safetensors', null],
])('%s tells %o', (path, numbers) => {
  expect(shardNumbersOf(path)).toEqual(numbers);
});
