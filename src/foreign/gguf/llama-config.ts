/** The `config.json` of a Llama model, from the metadata of a GGUF file. */

import type { PlainValue } from '../../file/source/plain-value.js';
import { float32Text } from './header/values.js';
import { type GgufMetadata, ROPE_FACTORS } from './llama-names.js';

/** A tensor of the file. */
interface ConfiguredTensor {
  readonly name: string;
  /** Row-major. */
  readonly shape: readonly number[];
}

/** A configuration, or what is missing for one. */
export type LlamaConfig =
  | { readonly config: Readonly<Record<string, unknown>> }
  | { readonly missing: readonly string[] };

/** Keys about a model's computation that the configuration includes, or that change nothing. */
const KNOWN = [
  ...['context_length', 'embedding_length', 'block_count', 'feed_forward_length', 'vocab_size'],
  ...['attention.head_count', 'attention.head_count_kv', 'attention.layer_norm_rms_epsilon'],
  ...['attention.key_length', 'attention.value_length', 'rope.dimension_count', 'rope.freq_base'],
  ...['rope.scaling.type', 'rope.scaling.factor', 'rope.scaling.original_context_length'],
  ...['rope.scaling.finetuned', 'expert_count', 'expert_used_count'],
].map((key) => `llama.${key}`);

/** That of llama.cpp for files without one. */
const DEFAULT_ROPE_BASE = 10_000;

/**
 * Returns the configuration, except the dtype. It is complete only if each key about the computation is known, and
 * every tensor is of the dimensions that the metadata declares.
 */
export function llamaConfig(
  metadata: GgufMetadata,
  tensors: readonly ConfiguredTensor[],
): LlamaConfig {
  const missing: string[] = [];
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]));
  const optional = (key: string): number | undefined => {
    const value = metadata.get(`llama.${key}`);
    if (value === undefined) return undefined;
    if (typeof value === 'number') return shortest(value);
    missing.push(`one number for llama.${key}`);
    return undefined;
  };
  const required = (key: string): number => {
    if (!metadata.has(`llama.${key}`)) missing.push(`llama.${key}`);
    return optional(key) ?? 0;
  };
  for (const key of metadata.keys()) {
    const isUnknown = String(key).startsWith('llama.') && !KNOWN.includes(String(key));
    if (isUnknown) missing.push(`the meaning of ${key}`);
  }
  const heads = required('attention.head_count');
  const kvHeads = optional('attention.head_count_kv') ?? heads;
  const hidden = required('embedding_length');
  const headDim = optional('attention.key_length') ?? hidden / heads;
  const config = {
    hidden_size: hidden,
    num_hidden_layers: required('block_count'),
    intermediate_size: required('feed_forward_length'),
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    head_dim: headDim,
    rms_norm_eps: required('attention.layer_norm_rms_epsilon'),
    max_position_embeddings: required('context_length'),
    rope_theta: optional('rope.freq_base') ?? DEFAULT_ROPE_BASE,
    rope_scaling: ropeScaling(metadata, missing),
    hidden_act: 'silu',
    vocab_size: shapes.get('token_embd.weight')?.[0] ?? 0,
    tie_word_embeddings: !shapes.has('output.weight'),
    bos_token_id: tokenId(metadata, 'bos'),
    eos_token_id: tokenId(metadata, 'eos'),
  };
  const rotated = optional('rope.dimension_count') ?? headDim;
  if (rotated !== headDim) missing.push('rotary embeddings of whole heads');
  if ((optional('attention.value_length') ?? headDim) !== headDim) {
    missing.push('value heads of the length of key heads');
  }
  if (shapes.has(ROPE_FACTORS)) missing.push(`the scaling that ${ROPE_FACTORS} is computed from`);
  const model = experts(metadata, required, shapes);
  if (missing.length === 0) missing.push(...wrongShapes(config, shapes));
  return missing.length > 0 ? { missing } : { config: { ...model, ...config } };
}

/** A float32 number as people write it: 0.00001, not 0.000009999999747378752. */
function shortest(value: number): number {
  return Math.fround(value) === value ? Number(float32Text(value)) : value;
}

function tokenId(metadata: GgufMetadata, name: string): PlainValue {
  return metadata.get(`tokenizer.ggml.${name}_token_id`) ?? null;
}

function ropeScaling(metadata: GgufMetadata, missing: string[]): object | null {
  const type = metadata.get('llama.rope.scaling.type') ?? 'none';
  if (type === 'none') return null;
  const factor = metadata.get('llama.rope.scaling.factor');
  if (type !== 'linear' || typeof factor !== 'number') {
    missing.push(`the parameters of the ${String(type)} rope scaling`);
  }
  return { rope_type: type, factor };
}

/** Members that depend on the kind of layers: Llama, or the experts of Mixtral. */
function experts(
  metadata: GgufMetadata,
  required: (key: string) => number,
  shapes: ReadonlyMap<string, unknown>,
): Readonly<Record<string, unknown>> {
  if (Number(metadata.get('llama.expert_count') ?? 0) > 0) {
    return {
      architectures: ['MixtralForCausalLM'],
      model_type: 'mixtral',
      num_local_experts: required('expert_count'),
      num_experts_per_tok: required('expert_used_count'),
      sliding_window: null,
    };
  }
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    attention_bias: shapes.has('blk.0.attn_q.bias'),
    mlp_bias: shapes.has('blk.0.ffn_up.bias'),
  };
}

/** Tensors that the first layer lacks, or that have another shape than the configuration. */
function wrongShapes(
  config: Readonly<Record<string, unknown>>,
  shapes: ReadonlyMap<string, readonly number[]>,
): string[] {
  const of = (key: string): number => Number(config[key]);
  const [hidden, dim] = [of('hidden_size'), of('head_dim')];
  const expected: readonly (readonly [string, ...number[]])[] = [
    ['token_embd.weight', of('vocab_size'), hidden],
    ['output_norm.weight', hidden],
    ['blk.0.attn_q.weight', of('num_attention_heads') * dim, hidden],
    ['blk.0.attn_k.weight', of('num_key_value_heads') * dim, hidden],
    [`blk.${of('num_hidden_layers') - 1}.attn_norm.weight`, hidden],
  ];
  return expected
    .filter(([name, ...shape]) => String(shapes.get(name)) !== String(shape))
    .map(([name, ...shape]) => `${name} of the shape [${shape.join(', ')}]`);
}
