/** What `config.json` specifies of a model, in the words of people. */

import type { RemoteCheckpoint } from 'safetensors-mmap';

/** Lines of a table: what, and how many. */
export type Architecture = readonly (readonly [label: string, value: string])[];

/** The keys of configurations, by what they specify: programs name the same things in different ways. */
const FIELDS: readonly (readonly [label: string, ...keys: string[]])[] = [
  ['Layers', 'num_hidden_layers', 'n_layer', 'num_layers', 'n_layers'],
  ['Hidden size', 'hidden_size', 'n_embd', 'd_model', 'dim'],
  ['MLP size', 'intermediate_size', 'n_inner', 'ffn_dim', 'd_ff'],
  ['Attention heads', 'num_attention_heads', 'n_head', 'num_heads', 'n_heads'],
  ['Key-value heads', 'num_key_value_heads', 'n_kv_heads', 'num_kv_heads'],
  ['Head size', 'head_dim', 'd_kv'],
  ['Experts', 'n_routed_experts', 'num_local_experts', 'num_experts'],
  ['Shared experts', 'n_shared_experts'],
  ['Active experts', 'num_experts_per_tok', 'num_selected_experts'],
  ['Expert size', 'moe_intermediate_size'],
  ['Vocabulary', 'vocab_size'],
  ['Context', 'max_position_embeddings', 'n_positions', 'n_ctx', 'max_seq_len'],
];

/** Reads a configuration. Parts of models for several kinds of input have one for text, which counts. */
export function architectureOf(config: unknown): Architecture {
  const fields = Object(config) as Record<string, unknown>;
  const text = Object(fields['text_config'] ?? fields['llm_config']) as Record<string, unknown>;
  const lines: [string, string][] = [];
  const { architectures, model_type: type, _class_name: className } = fields;
  const named = Array.isArray(architectures) ? architectures[0] : (className ?? type);
  if (typeof named === 'string') lines.push(['Model', named.slice(0, 100)]);
  for (const [label, ...keys] of FIELDS) {
    const value = keys
      .map((key) => text[key] ?? fields[key])
      .find((one): one is number => Number.isSafeInteger(one) && (one as number) > 0);
    if (value !== undefined) lines.push([label, value.toLocaleString('en')]);
  }
  return lines;
}

/** Reads the configuration next to a model; undefined if there is none. Throws if it cannot be fetched or parsed. */
export async function readConfig(
  checkpoint: Pick<RemoteCheckpoint, 'sibling'>,
  signal: AbortSignal,
): Promise<unknown> {
  const found = await checkpoint.sibling('config.json', { signal });
  if (found === undefined) return undefined;
  const { path, bytes, byteLength } = found;
  if (bytes.length < byteLength) throw new Error(`${path}: longer than ${bytes.length} bytes`);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new Error(`${path}: invalid JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads what the configuration next to a model specifies; nothing if it cannot be read. */
export async function readArchitecture(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<Architecture> {
  try {
    return architectureOf(await readConfig(checkpoint, signal));
  } catch (error) {
    if (signal.aborted) throw error;
    return [];
  }
}
