/** Configurations of models, by the names that programs give the same things. */
import { expect, it } from 'vitest';
import { architectureOf, readConfig } from '../../viewer/worker/architecture.js';

it('the fields of a configuration have one name each', () => {
  const gpt2 = { architectures: ['GPT2LMHeadModel'], n_layer: 12, n_embd: 768, n_head: 12 };
  expect(architectureOf({ ...gpt2, vocab_size: 50_257, n_inner: null })).toEqual([
    ['Model', 'GPT2LMHeadModel'],
    ['Layers', '12'],
    ['Hidden size', '768'],
    ['Attention heads', '12'],
    ['Vocabulary', '50,257'],
  ]);
  const moe = { num_hidden_layers: 61, num_experts_per_tok: 8, n_routed_experts: 256 };
  expect(architectureOf(moe)).toEqual([
    ['Layers', '61'],
    ['Experts', '256'],
    ['Active experts', '8'],
  ]);
});

it('the configuration for text counts in a model for several kinds of input', () => {
  const config = { model_type: 'gemma3', hidden_size: 1, text_config: { hidden_size: 2560 } };
  expect(architectureOf(config)).toEqual([
    ['Model', 'gemma3'],
    ['Hidden size', '2,560'],
  ]);
});

it('other values are left out', () => {
  const wrong = { hidden_size: '768', vocab_size: -1, n_layer: 1.5, architectures: [7] };
  for (const config of [null, 7, 'text', [], wrong]) expect(architectureOf(config)).toEqual([]);
});

it('a configuration that cannot be read is an error, unless there is none', async () => {
  const { signal } = new AbortController();
  const read = (found: { text: string; byteLength?: number } | undefined) => {
    const bytes = new TextEncoder().encode(found?.text);
    const file = { path: 'm/config.json', bytes, byteLength: found?.byteLength ?? bytes.length };
    return readConfig({ sibling: async () => (found === undefined ? found : file) }, signal);
  };
  expect(await read(undefined)).toBe(undefined);
  expect(await read({ text: '{"a": 1}' })).toEqual({ a: 1 });
  await expect(read({ text: '{' })).rejects.toThrow('m/config.json: invalid JSON: ');
  await expect(read({ text: '{}', byteLength: 3 })).rejects.toThrow('longer than 2 bytes');
  const failed = async () => {
    throw new Error('no answer');
  };
  await expect(readConfig({ sibling: failed }, signal)).rejects.toThrow('no answer');
});
