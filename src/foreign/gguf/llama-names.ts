/** Names and rows of Llama models, Mistral and Mixtral included, as Transformers has them. */

import { FormatError } from '../../errors/errors.js';
import type { PlainValue } from '../../file/source/plain-value.js';

/** The metadata of a GGUF model. */
export type GgufMetadata = ReadonlyMap<PlainValue, PlainValue>;

/** A tensor of a GGUF model in Transformers. */
export interface LlamaTensor {
  /** Its name; for the experts of a layer one name each, for the items of the first dimension. */
  readonly names: readonly string[];
  /** The attention heads whose rows are reordered; null when all rows have the same order. */
  readonly heads: number | null;
}

/** Tensors outside of layers. */
const OUTER: ReadonlyMap<string, string> = new Map([
  ['token_embd.weight', 'model.embed_tokens.weight'],
  ['output_norm.weight', 'model.norm.weight'],
  ['output.weight', 'lm_head.weight'],
]);

const IN_LAYER = /^blk\.(0|[1-9]\d*)\.(.+)\.(weight|bias)$/;

const LAYER_PARTS: ReadonlyMap<string, string> = new Map([
  ['attn_norm', 'input_layernorm'],
  ['attn_q', 'self_attn.q_proj'],
  ['attn_k', 'self_attn.k_proj'],
  ['attn_v', 'self_attn.v_proj'],
  ['attn_output', 'self_attn.o_proj'],
  ['ffn_norm', 'post_attention_layernorm'],
  ['ffn_gate', 'mlp.gate_proj'],
  ['ffn_up', 'mlp.up_proj'],
  ['ffn_down', 'mlp.down_proj'],
  ['ffn_gate_inp', 'block_sparse_moe.gate'],
]);

/** Mixtral's experts: all of a layer in one tensor, or in older files each in a separate one. */
const EXPERTS: ReadonlyMap<string, string> = new Map([
  ['ffn_gate', 'w1'],
  ['ffn_down', 'w2'],
  ['ffn_up', 'w3'],
]);
const ONE_EXPERT = /^(ffn_(?:gate|down|up))\.(0|[1-9]\d*)$/;
const ALL_EXPERTS = /^(ffn_(?:gate|down|up))_exps$/;

/** Heads of the query and the key rows. */
const HEADS: ReadonlyMap<string, readonly string[]> = new Map([
  ['attn_q', ['llama.attention.head_count']],
  ['attn_k', ['llama.attention.head_count_kv', 'llama.attention.head_count']],
]);

/** Factors of rotary embeddings, which Transformers computes from its configuration. */
export const ROPE_FACTORS = 'rope_freqs.weight';

/** The number of a key: one for all layers, or one for each. */
function numberOf(metadata: GgufMetadata, key: string, layer: number): number | undefined {
  const value = metadata.get(key);
  const own = Array.isArray(value) ? value[layer] : value;
  return typeof own === 'number' ? own : undefined;
}

/**
 * Returns what a tensor is in Transformers. llama.cpp stores the query and key rows of a head in another order.
 *
 * @param shape row-major
 * @throws FormatError `SAFETENSORS_UNSUPPORTED_TENSOR` for an unknown name; `SAFETENSORS_INVALID_GGUF` when the
 *   metadata lacks the number of heads, or the rows cannot belong to so many
 */
export function llamaTensor(
  name: string,
  shape: readonly number[],
  metadata: GgufMetadata,
  path: string,
): LlamaTensor {
  const outer = OUTER.get(name);
  if (outer !== undefined) return { names: [outer], heads: null };
  const context = { path, tensor: name };
  const [, number = '', part = '', kind = ''] = IN_LAYER.exec(name) ?? [];
  const names = layerNames(number, part, kind, shape);
  if (names === undefined) {
    const message = 'Transformers has no name for this tensor in a Llama model';
    throw new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  const keys = HEADS.get(part);
  if (keys === undefined) return { names, heads: null };
  const counts = keys.map((key) => numberOf(metadata, key, Number(number)));
  const heads = counts.find((count) => count !== undefined) ?? 0;
  const [rows = 0] = shape;
  if (heads > 0 && rows > 0 && rows % (2 * heads) === 0) return { names, heads };
  const found = heads > 0 ? `${rows} rows for ${heads} heads` : `no ${keys.at(-1)}`;
  const message = `expected rows of attention heads, found ${found}`;
  throw new FormatError('SAFETENSORS_INVALID_GGUF', message, context);
}

function layerNames(
  layer: string,
  part: string,
  kind: string,
  shape: readonly number[],
): string[] | undefined {
  const prefix = `model.layers.${layer}`;
  const known = LAYER_PARTS.get(part);
  if (known !== undefined) return [`${prefix}.${known}.${kind}`];
  if (kind !== 'weight') return undefined;
  const expertName = (weight: string, expert: string | number): string =>
    `${prefix}.block_sparse_moe.experts.${expert}.${EXPERTS.get(weight)}.weight`;
  const [, weight, expert] = ONE_EXPERT.exec(part) ?? [];
  if (weight !== undefined) return [expertName(weight, expert as string)];
  const [, stacked] = ALL_EXPERTS.exec(part) ?? [];
  if (stacked === undefined || shape.length !== 3) return undefined;
  return Array.from({ length: shape[0] as number }, (_, i) => expertName(stacked, i));
}
