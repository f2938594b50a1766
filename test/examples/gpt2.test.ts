/** GPT-2 in 300 lines: the logits and the text of transformers, over mapped weights, shards and other dtypes. */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { convert } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { Example } from './example.js';

const python = findPython('torch', 'safetensors', 'transformers', 'tokenizers');

function make(dtype: string): Example {
  const example = new Example('gpt2');
  runPython(python, [example.path('make-model.py'), example.path('tiny'), dtype]);
  return example;
}

function written(example: Example, model: string): string {
  const prompt = readFileSync(example.path('tiny/prompt.txt'), 'utf8');
  const lines = example.lines(['gpt2.js', model, prompt, '--new', '20']);
  expect(lines.at(-1)).toMatch(/^39 tokens, [\d.]+ per second$/);
  return lines.slice(0, -2).join('\n');
}

describe.skipIf(isSkipped(python))(titleWith(python, 'GPT-2 in 300 lines'), () => {
  it.each(['float32', 'float16', 'bfloat16'])('has the logits of transformers in %s', (dtype) => {
    const example = make(dtype);
    const [line] = example.lines(['gpt2.js', 'tiny', '--compare', 'tiny/expected.safetensors']);
    expect(line).toMatch(/^\d+ tokens, logits up to 1\d\.\d\d, off by \d\.\de-(?:[5-9]|\d\d)$/);
    expect(written(example, 'tiny')).toBe(readFileSync(example.path('tiny/written.txt'), 'utf8'));
  });

  it('finds the names of the base model, in shards', async () => {
    const example = make('float32');
    const { files } = await convert(example.path('tiny/model.safetensors'), example.path('base'), {
      maxShardSize: '500KB',
      rename: (name) => name.replace(/^transformer\./, ''),
    });
    expect(files.length).toBeGreaterThan(1);
    for (const name of ['config.json', 'tokenizer.json']) {
      writeFileSync(example.path('base', name), readFileSync(example.path('tiny', name)));
    }
    example.lines(['gpt2.js', 'base', '--compare', 'tiny/expected.safetensors']);
    expect(written(example, 'base')).toBe(readFileSync(example.path('tiny/written.txt'), 'utf8'));
  });

  it('refuses what it does not compute', () => {
    const example = make('float32');
    const path = example.path('tiny/config.json');
    const config = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...config, activation_function: 'relu' }));
    const { code, stdout, stderr } = example.run(['gpt2.js', 'tiny', 'x']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/config\.json: activation_function is relu; expected gelu_new\n$/);
  });
});
