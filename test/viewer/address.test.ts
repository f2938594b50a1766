/** Addresses that people type. */
import { expect, it } from 'vitest';
import { sourceAddress } from '../../viewer/address.js';

it('a repository of the Hub needs no scheme', () => {
  expect(sourceAddress(' openai-community/gpt2 ')).toBe('hf://openai-community/gpt2');
  expect(sourceAddress('org/name@refs/pr/1')).toBe('hf://org/name@refs/pr/1');
});

it.each(['hf://org/name', 'https://models.example/m.safetensors', 'name', 'a/b/c', '/a/b', ''])(
  '%j stays as it is',
  (text) => {
    expect(sourceAddress(text)).toBe(text);
  },
);
