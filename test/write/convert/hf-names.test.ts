/** GGUF models of the Llama family, converted to the names and rows of Transformers. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { call, printed } from '../../cli/call.js';
import { Encoder, ggufBytes, type Value, writtenGguf } from '../../foreign/gguf/generated-gguf.js';
import { convert, loadFile } from '../../support/api.js';
import { FileServer } from '../../support/file-server.js';
import { temporaryPath } from '../../support/make-file.js';

const encoder = new Encoder();
const number = (value: number): Value => [4, encoder.u32(value)];
const text = (value: string): Value => [8, encoder.text(value)];

/** Dimensions of a model: heads of 8 rows. */
interface Model {
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly experts?: number;
}

const SMALL: Model = { hidden: 32, heads: 4, kvHeads: 2 };
const INNER = 64;
const VOCABULARY = 5;

/** The tensors of a model of one layer as Transformers has them, with different values in all places. */
function hfTensors({ hidden, heads, kvHeads, experts }: Model): Map<string, Array2> {
  const dim = hidden / heads;
  const tensors = new Map<string, Array2>();
  let next = 0;
  const add = (name: string, rows: number, columns: number): void => {
    const values = Float32Array.from({ length: rows * columns }, () => (next++ % 60_000) / 8);
    tensors.set(name, { rows, columns, values });
  };
  add('model.embed_tokens.weight', VOCABULARY, hidden);
  add('model.norm.weight', hidden, 1);
  add('lm_head.weight', VOCABULARY, hidden);
  const layer = 'model.layers.0';
  add(`${layer}.input_layernorm.weight`, hidden, 1);
  add(`${layer}.post_attention_layernorm.weight`, hidden, 1);
  add(`${layer}.self_attn.q_proj.weight`, heads * dim, hidden);
  add(`${layer}.self_attn.q_proj.bias`, heads * dim, 1);
  add(`${layer}.self_attn.k_proj.weight`, kvHeads * dim, hidden);
  add(`${layer}.self_attn.v_proj.weight`, kvHeads * dim, hidden);
  add(`${layer}.self_attn.o_proj.weight`, hidden, heads * dim);
  if (experts === undefined) {
    add(`${layer}.mlp.gate_proj.weight`, INNER, hidden);
    add(`${layer}.mlp.up_proj.weight`, INNER, hidden);
    add(`${layer}.mlp.down_proj.weight`, hidden, INNER);
    return tensors;
  }
  add(`${layer}.block_sparse_moe.gate.weight`, experts, hidden);
  for (let i = 0; i < experts; i++) {
    add(`${layer}.block_sparse_moe.experts.${i}.w1.weight`, INNER, hidden);
    add(`${layer}.block_sparse_moe.experts.${i}.w2.weight`, hidden, INNER);
    add(`${layer}.block_sparse_moe.experts.${i}.w3.weight`, INNER, hidden);
  }
  return tensors;
}

/** A matrix, or with one column a vector. */
interface Array2 {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float32Array;
}

/** As llama.cpp's converter: `reshape(heads, 2, rows / heads / 2, columns).swapaxes(1, 2)`. */
function permuted({ rows, columns, values }: Array2, heads: number): Array2 {
  const half = rows / heads / 2;
  const moved = new Float32Array(values.length);
  let to = 0;
  for (let head = 0; head < heads; head++) {
    for (let i = 0; i < half; i++) {
      for (let part = 0; part < 2; part++) {
        const from = (head * 2 * half + part * half + i) * columns;
        moved.set(values.subarray(from, from + columns), to);
        to += columns;
      }
    }
  }
  return { rows, columns, values: moved };
}

/** Names in GGUF by those in Transformers, as gguf-py's `get_tensor_name_map` has them. */
const NAMES: Readonly<Record<string, string>> = {
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  lm_head: 'output',
  'model.layers.0.input_layernorm': 'blk.0.attn_norm',
  'model.layers.0.post_attention_layernorm': 'blk.0.ffn_norm',
  'model.layers.0.self_attn.q_proj': 'blk.0.attn_q',
  'model.layers.0.self_attn.k_proj': 'blk.0.attn_k',
  'model.layers.0.self_attn.v_proj': 'blk.0.attn_v',
  'model.layers.0.self_attn.o_proj': 'blk.0.attn_output',
  'model.layers.0.mlp.gate_proj': 'blk.0.ffn_gate',
  'model.layers.0.mlp.up_proj': 'blk.0.ffn_up',
  'model.layers.0.mlp.down_proj': 'blk.0.ffn_down',
  'model.layers.0.block_sparse_moe.gate': 'blk.0.ffn_gate_inp',
};
const EXPERT_NAMES = { w1: 'ffn_gate_exps', w2: 'ffn_down_exps', w3: 'ffn_up_exps' };

type Stored = readonly [name: string, dims: readonly number[], values: Float32Array];

/** The tensors as llama.cpp's converter writes them. */
function storedTensors(model: Model): Stored[] {
  const { heads, kvHeads, experts = 0 } = model;
  const all = hfTensors(model);
  const stored: Stored[] = [];
  for (const [name, own] of all) {
    const [, base = '', kind = ''] = /^(.*)\.(weight|bias)$/.exec(name) ?? [];
    if (!Object.hasOwn(NAMES, base)) continue;
    const { rows, columns, values } = base.endsWith('q_proj')
      ? permuted(own, heads)
      : base.endsWith('k_proj')
        ? permuted(own, kvHeads)
        : own;
    stored.push([`${NAMES[base]}.${kind}`, columns === 1 ? [rows] : [columns, rows], values]);
  }
  if (experts === 0) return stored;
  for (const [weight, name] of Object.entries(EXPERT_NAMES)) {
    const each = Array.from({ length: experts }, (_, i) => {
      return all.get(`model.layers.0.block_sparse_moe.experts.${i}.${weight}.weight`) as Array2;
    });
    const [{ rows, columns }] = each as [Array2];
    const values = Float32Array.from(each.flatMap((one) => [...one.values]));
    stored.push([`blk.0.${name}.weight`, [columns, rows, experts], values]);
  }
  return stored;
}

function metadataOf({ hidden, heads, kvHeads, experts }: Model): Map<string, Value> {
  return new Map<string, Value>([
    ['general.architecture', text('llama')],
    ['llama.context_length', number(512)],
    ['llama.embedding_length', number(hidden)],
    ['llama.block_count', number(1)],
    ['llama.feed_forward_length', number(INNER)],
    ['llama.attention.head_count', number(heads)],
    ['llama.attention.head_count_kv', number(kvHeads)],
    ['llama.attention.layer_norm_rms_epsilon', [6, encoder.f32(1e-5)]],
    ['llama.rope.freq_base', [6, encoder.f32(500_000)]],
    ['tokenizer.ggml.bos_token_id', number(1)],
    ...(experts === undefined
      ? []
      : ([
          ['llama.expert_count', number(experts)],
          ['llama.expert_used_count', number(2)],
        ] as const)),
  ]);
}

/** The bytes of values as F32, or as Q8_0 with the scale 1, whose values are then small integers. */
function encoded(values: Float32Array, isQuantized: boolean): Uint8Array {
  if (!isQuantized) return new Uint8Array(values.slice().buffer);
  const blocks = new Uint8Array((values.length / 32) * 34);
  for (let block = 0; block < values.length / 32; block++) {
    blocks.set([0, 0x3c], block * 34);
    for (let i = 0; i < 32; i++) blocks[block * 34 + 2 + i] = code(values[block * 32 + i] ?? 0);
  }
  return blocks;
}

const code = (value: number): number => (value * 8) % 127;

function bytesOf(
  stored: readonly Stored[],
  metadata: ReadonlyMap<string, Value>,
  isQuantized = false,
): Buffer {
  let offset = 0;
  const parts: Uint8Array[] = [];
  const tensors = stored.map(([name, dims, values]) => {
    const isBlocks = isQuantized && dims.length > 1;
    const bytes = encoded(values, isBlocks);
    const padded = new Uint8Array(Math.ceil(bytes.length / 32) * 32);
    padded.set(bytes);
    parts.push(padded);
    const tensor = { name, dims, type: isBlocks ? 8 : 0, offset };
    offset += padded.length;
    return tensor;
  });
  return ggufBytes({ keys: [...metadata], tensors, data: Buffer.concat(parts) });
}

const fileOf = (model: Model, isQuantized = false): string =>
  writtenGguf(bytesOf(storedTensors(model), metadataOf(model), isQuantized));

/** Compares a written file with the tensors of a model. */
function expectTensors(path: string, model: Model, isQuantized = false): void {
  const written = loadFile(path);
  const expected = hfTensors(model);
  expect([...written.keys()].sort()).toEqual([...expected.keys()].sort());
  for (const [name, { rows, columns, values }] of expected) {
    const tensor = written.get(name);
    expect(tensor?.shape, name).toEqual(columns === 1 ? [rows] : [rows, columns]);
    const wanted = isQuantized && columns > 1 ? values.map(code) : values;
    const found = Buffer.from(tensor?.toFloat32().slice().buffer ?? new ArrayBuffer(0));
    expect(found.equals(Buffer.from(wanted.slice().buffer)), name).toBe(true);
  }
}

it.each([
  ['unquantized', false, 'F32'],
  ['in blocks', true, 'F32'],
  ['in blocks, as F16', true, 'F16'],
] as const)('names, rows and config.json: %s', async (_, isQuantized, dequantize) => {
  const folder = temporaryPath('model');
  const { copied, missingConfig } = await convert(fileOf(SMALL, isQuantized), folder, {
    ...{ naming: 'hf', dequantize },
  });
  expectTensors(join(folder, 'model.safetensors'), SMALL, isQuantized);
  expect([copied, missingConfig]).toEqual([['config.json'], undefined]);
  expect(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))).toEqual({
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    attention_bias: true,
    mlp_bias: false,
    hidden_size: 32,
    num_hidden_layers: 1,
    intermediate_size: INNER,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 8,
    rms_norm_eps: 1e-5,
    max_position_embeddings: 512,
    rope_theta: 500_000,
    rope_scaling: null,
    hidden_act: 'silu',
    vocab_size: VOCABULARY,
    tie_word_embeddings: false,
    bos_token_id: 1,
    eos_token_id: null,
    torch_dtype: dequantize === 'F16' ? 'float16' : 'float32',
  });
});

it.each([false, true])('experts, in blocks: %s', async (isQuantized) => {
  const model = { ...SMALL, experts: 3 };
  const folder = temporaryPath('model');
  await convert(fileOf(model, isQuantized), folder, { naming: 'hf', dequantize: 'F32' });
  expectTensors(join(folder, 'model.safetensors'), model, isQuantized);
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  expect(config).toMatchObject({
    ...{ architectures: ['MixtralForCausalLM'], num_local_experts: 3, num_experts_per_tok: 2 },
  });
});

it.each([false, true])(
  'heads that are longer than the pieces of a write, in blocks: %s',
  async (isQuantized) => {
    const model = { hidden: 1056, heads: 2, kvHeads: 1 };
    const target = temporaryPath('one.safetensors');
    await convert(fileOf(model, isQuantized), target, { naming: 'hf', dequantize: 'F32' });
    expectTensors(target, model, isQuantized);
  },
);

it('of an address and of a Blob are the same', async () => {
  const bytes = bytesOf(storedTensors(SMALL), metadataOf(SMALL), true);
  const server = await FileServer.start({ '/model.gguf': bytes });
  try {
    const sources = [server.at('/model.gguf'), new Blob([Uint8Array.from(bytes)])];
    for (const [i, source] of sources.entries()) {
      const folder = temporaryPath(`model-${i}`);
      await convert(source, folder, { naming: 'hf', dequantize: 'F32' });
      expectTensors(join(folder, 'model.safetensors'), SMALL, true);
      expect(existsSync(join(folder, 'config.json'))).toBe(true);
    }
  } finally {
    await server.close();
  }
});

it('the generated config.json replaces one next to the file', async () => {
  const path = fileOf(SMALL, true);
  writeFileSync(join(dirname(path), 'config.json'), '{"model_type":"llama"}');
  writeFileSync(join(dirname(path), 'tokenizer.json'), '{}');
  const folder = temporaryPath('copied');
  const { copied } = await convert(path, folder, {
    ...{ naming: 'hf', dequantize: 'BF16', copyOtherFiles: true },
  });
  expect([...copied].sort()).toEqual(['config.json', 'tokenizer.json']);
  expect(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))).toMatchObject({
    ...{ hidden_size: 32, torch_dtype: 'bfloat16' },
  });
});

it.each([
  ['llama.context_length', undefined, 'llama.context_length'],
  ['llama.attention.head_count_kv', number(4), 'blk.0.attn_k.weight of the shape [32, 32]'],
  ['llama.rope.scaling.type', text('yarn'), 'the parameters of the yarn rope scaling'],
  ['llama.attention.scale', [6, encoder.f32(0.1)] as Value, 'the meaning of llama.attention.scale'],
  ['llama.rope.dimension_count', number(4), 'rotary embeddings of whole heads'],
])('no config.json when the metadata lacks it: %s', async (key, value, missing) => {
  const metadata = metadataOf(SMALL);
  if (value === undefined) metadata.delete(key);
  else metadata.set(key, value);
  const path = writtenGguf(bytesOf(storedTensors(SMALL), metadata));
  const folder = temporaryPath('model');
  const found = await convert(path, folder, { naming: 'hf' });
  expect(found.missingConfig).toEqual([missing]);
  expect(existsSync(join(folder, 'config.json'))).toBe(false);
});

it('factors of rotary embeddings are left out, and no config.json is written', async () => {
  const stored = [
    ...storedTensors(SMALL),
    ['rope_freqs.weight', [4], new Float32Array(4)] as const,
  ];
  const folder = temporaryPath('model');
  const path = writtenGguf(bytesOf(stored, metadataOf(SMALL)));
  const { missingConfig } = await convert(path, folder, { naming: 'hf' });
  expect(missingConfig).toEqual(['the scaling that rope_freqs.weight is computed from']);
  expectTensors(join(folder, 'model.safetensors'), SMALL);
});

it('other architectures and tensors without a name are errors', async () => {
  const target = temporaryPath('out.safetensors');
  const gemma = metadataOf(SMALL).set('general.architecture', text('gemma2'));
  const other = writtenGguf(bytesOf(storedTensors(SMALL), gemma));
  await expect(convert(other, target, { naming: 'hf' })).rejects.toMatchObject({
    code: 'ERR_OUT_OF_RANGE',
    message: expect.stringContaining('gemma2'),
  });
  const unknown = ['blk.0.attn_q_norm.weight', [4], new Float32Array(4)] as const;
  const path = writtenGguf(bytesOf([...storedTensors(SMALL), unknown], metadataOf(SMALL)));
  await expect(convert(path, target, { naming: 'hf' })).rejects.toMatchObject({
    ...{ code: 'SAFETENSORS_UNSUPPORTED_TENSOR', tensor: unknown[0] },
  });
  await convert(path, target, { naming: 'hf', names: (name) => name !== unknown[0] });
  expectTensors(target, SMALL);
  const headless = metadataOf(SMALL);
  headless.delete('llama.attention.head_count');
  headless.delete('llama.attention.head_count_kv');
  const lacking = writtenGguf(bytesOf(storedTensors(SMALL), headless));
  await expect(convert(lacking, target, { naming: 'hf', overwrite: true })).rejects.toMatchObject({
    message: expect.stringContaining('llama.attention.head_count'),
  });
});

it('other formats and other values are rejected', async () => {
  const target = temporaryPath('out.safetensors');
  await convert(fileOf(SMALL), target);
  const again = temporaryPath('again.safetensors');
  const rejected = { code: 'ERR_OUT_OF_RANGE', argument: 'naming' };
  await expect(convert(target, again, { naming: 'hf' })).rejects.toMatchObject(rejected);
  const blob = new Blob([readFileSync(target)]);
  await expect(convert(blob, again, { naming: 'hf' })).rejects.toMatchObject(rejected);
  const wrong = convert(fileOf(SMALL), again, { naming: 'ggml' as 'hf' });
  await expect(wrong).rejects.toMatchObject(rejected);
});

it('on the command line', async () => {
  const folder = temporaryPath('model');
  const arguments_ = ['--names', 'hf', '--dequantize', 'F16'];
  const shown = await printed(['convert', fileOf(SMALL, true), folder, ...arguments_]);
  expect(shown).toContain('copied: config.json');
  const metadata = metadataOf(SMALL);
  metadata.delete('llama.context_length');
  const lacking = writtenGguf(bytesOf(storedTensors(SMALL), metadata));
  const { code: status, stdout } = await call([
    'convert',
    lacking,
    temporaryPath('b'),
    ...arguments_,
  ]);
  expect([status, stdout]).toEqual([
    0,
    expect.stringContaining('warning: no config.json, for lack of llama.context_length'),
  ]);
  const wrong = await call(['convert', lacking, temporaryPath('c'), '--names', 'gguf']);
  expect(wrong.code).toBe(2);
});
