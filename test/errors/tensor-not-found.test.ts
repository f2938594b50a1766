/** Names of tensors with a wrong number or prefix. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { tensorNotFound } from '../../src/errors/tensor-not-found.js';
import { parse, safeOpen, serialize } from '../support/api.js';
import { writeCheckpoint } from '../support/make-checkpoint.js';

/** The names of a model of 40 layers, whose first three have no experts. */
function modelNames(prefix = 'model.'): string[] {
  const layers = Array.from({ length: 40 }, (_, i) => [
    `${prefix}layers.${i}.self_attn.q_proj.weight`,
    ...(i < 3 ? [] : [0, 1].map((expert) => `${prefix}layers.${i}.mlp.experts.${expert}.up_proj`)),
  ]);
  return [
    `${prefix}embed_tokens.weight`,
    ...layers.flat(),
    `${prefix}norm.weight`,
    'lm_head.weight',
  ];
}

function message(name: string, names: readonly string[]): string {
  return tensorNotFound(name, names, {}).message.replace(/^tensor .*?: /, '');
}

const Q = 'self_attn.q_proj.weight';
const RANGE = 'no such tensor; numbers in "model.layers.*" go from 0 to 39';

it.each([
  // Zeros before a number.
  [`model.layers.03.${Q}`, `no such tensor; did you mean "model.layers.3.${Q}"?`],
  [`layers.003.${Q}`, `no such tensor; did you mean "model.layers.3.${Q}"?`],
  // A number outside of the layers, or of the experts.
  [`model.layers.45.${Q}`, RANGE],
  [`layers.45.${Q}`, RANGE],
  [`base.model.layers.40.${Q}`, RANGE],
  ['model.layers.40', RANGE],
  [
    'model.layers.3.mlp.experts.2.up_proj',
    'no such tensor; numbers in "model.layers.3.mlp.experts.*" go from 0 to 1',
  ],
  // A prefix that is missing, or one too much.
  [
    'layers.3.mlp.experts.0.up_proj',
    'no such tensor; did you mean "model.layers.3.mlp.experts.0.up_proj"?',
  ],
  [`base.model.layers.12.${Q}`, `no such tensor; did you mean "model.layers.12.${Q}"?`],
  ['model.lm_head.weight', 'no such tensor; did you mean "lm_head.weight"?'],
  ['norm.weight', 'no such tensor; did you mean "model.norm.weight"?'],
  ['nothing', 'no such tensor'],
  [`model.layers.${'9'.repeat(20)}.x`, expect.stringMatching(/^no such tensor/)],
  ['x'.repeat(300), 'no such tensor'],
])('%s', (name, expected) => {
  expect(message(name, modelNames())).toEqual(expected);
});

it('of a layer that has other tensors, names the nearest', () => {
  const found = message('model.layers.1.mlp.experts.0.up_proj', modelNames());
  expect(found).toMatch(/^no such tensor; did you mean "model\.layers\.\d+\.mlp\.experts/);
});

it('of names with one number, or with longer ones than are exact', () => {
  expect(message('h.1.w', ['h.0.w', 'h.0.b'])).toBe(
    'no such tensor; the only number in "h.*" is 0',
  );
  const names = ['h.0.w', 'h.5.w', `h.1${'0'.repeat(19)}.w`];
  expect(message('h.7.w', names)).toContain('did you mean');
});

it('shows control characters of a prefix as text', () => {
  const found = message('layers.9.w', ['\u001b[31m\n- x.layers.0.w', '\u001b[31m\n- x.layers.1.w']);
  expect(found).toContain('\\u001b[31m\\n- x.layers.*" go from 0 to 1');
});

it('of two models in one file, has no range', () => {
  const names = ['text.', 'vision.'].flatMap(modelNames);
  expect(message(`layers.3.${Q}`, names)).toBe(
    `no such tensor; did you mean "text.layers.3.${Q}", "vision.layers.3.${Q}"?`,
  );
  expect(message(`layers.45.${Q}`, names)).not.toContain('go from');
  expect(message(`vision.layers.45.${Q}`, names)).toContain('"vision.layers.*" go from 0 to 39');
});

it('compares the first 100,000 names, and none above 200 characters', () => {
  const names = Array.from({ length: 99_999 }, (_, i) => `model.layers.${i % 60}.experts.${i}.up`);
  const wanted = 'model.layers.60.experts.0.up';
  expect(message(wanted, names)).toContain('go from 0 to 59');
  expect(message(wanted, [...names, 'x', 'model.layers.99.late'])).toContain('did you mean');
  const long = ['1.'.repeat(2 ** 20), `model.layers.99.${'x'.repeat(200)}`];
  expect(message(wanted, [...long, ...names])).toContain('did you mean');
  expect(message('1.'.repeat(100), [...long, ...names])).toMatch(/^no such tensor/);
});

it('is the error of files and of sharded checkpoints', () => {
  const tensor = { dtype: 'U8', shape: [1], data: new Uint8Array(1) } as const;
  const file = parse(serialize({ 'h.0.w': tensor, 'h.1.w': tensor }));
  for (const get of [() => file.getTensor('h.2.w'), () => file.info('h.2.w')]) {
    expect(get).toThrow('tensor "h.2.w": no such tensor; numbers in "h.*" go from 0 to 1');
  }
  const entry = (name: string) => ({ name, dtype: 'U8', shape: [1] }) as const;
  const sharded = writeCheckpoint({
    metadata: { total_size: 2 },
    shards: {
      'model-00001-of-00002.safetensors': [entry('h.0.w')],
      'model-00002-of-00002.safetensors': [entry('h.1.w')],
    },
  });
  expect(() => safeOpen(sharded).getTensor('h.2.w')).toThrow(
    /; numbers in "h\.\*" go from 0 to 1$/,
  );
  expect(() => safeOpen(sharded).getTensor('h.01.w')).toThrow('; did you mean "h.1.w"?');
  // Of one shard, only its own layers are known.
  const shard = safeOpen(join(sharded, 'model-00001-of-00002.safetensors'));
  expect(() => shard.getTensor('h.1.w')).toThrow(/has all tensors; did you mean "h\.0\.w"\?$/);
});
