/** The keys of adapters: which module each belongs to, and which part of its adapter it is. */

import type { Tensor } from '../../tensor/tensor.js';
import { isPeft } from './detect.js';

/** A part of a module's adapter. */
export type Part =
  | 'down'
  | 'up'
  | 'mid'
  | 'upBias'
  | 'alpha'
  | 'magnitude'
  | 'doraScale'
  | 'tokenDown'
  | 'tokenUp'
  | 'tokens'
  | `hada_${'w1' | 'w2'}_${'a' | 'b'}`
  | `hada_${'t1' | 't2'}`
  | `lokr_${'w1' | 'w2'}${'' | '_a' | '_b'}`
  | 'lokr_t2'
  | 'ia3'
  | 'factors'
  | 'onInput'
  | 'diff'
  | 'diffBias'
  | 'normWeight'
  | 'normBias';

/** A tensor of an adapter, or its info. */
export interface PartTensor<Facts = Tensor> {
  readonly key: string;
  readonly tensor: Facts;
}

/** All parts of one module's adapter. */
export interface AdapterModule<Facts = Tensor> {
  /** The path of the module, as keys have it. */
  readonly path: string;
  readonly parts: ReadonlyMap<Part, PartTensor<Facts>>;
}

/** The ends of keys, and what they are. PEFT's keys may have the name of the adapter before the last part. */
const ENDINGS: readonly (readonly [ending: RegExp, part: Part | null])[] = [
  [/\.lora_A(?:\.[^.]+)?\.weight$/, 'down'],
  [/\.lora_B(?:\.[^.]+)?\.weight$/, 'up'],
  [/\.lora_B(?:\.[^.]+)?\.bias$/, 'upBias'],
  [/\.lora_embedding_A(?:\.[^.]+)?$/, 'tokenDown'],
  [/\.lora_embedding_B(?:\.[^.]+)?$/, 'tokenUp'],
  [/\.lora_magnitude_vector(?:\.[^.]+)?(?:\.weight)?$/, 'magnitude'],
  [/\.(?:token_adapter\.)?trainable_tokens_delta(?:\.[^.]+)?$/, 'tokens'],
  [/\.ia3_l(?:\.[^.]+)?$/, 'ia3'],
  [/(?:\.lora|\.lora_linear_layer|_lora)\.down\.weight\.alpha$/, 'alpha'],
  [/(?:\.lora|\.lora_linear_layer|_lora)\.down\.weight$/, 'down'],
  [/(?:\.lora|\.lora_linear_layer|_lora)\.up\.weight$/, 'up'],
  [/\.lora_down\.weight$/, 'down'],
  [/\.lora_up\.weight$/, 'up'],
  [/\.lora_mid\.weight$/, 'mid'],
  [/\.alpha$/, 'alpha'],
  [/\.dora_scale$/, 'doraScale'],
  [/\.(hada_(?:w[12]_[ab]|t[12]))(?:\.[^.]+)?$/, null],
  [/\.(lokr_(?:w[12](?:_[ab])?|t2))(?:\.[^.]+)?$/, null],
  [/\.on_input$/, 'onInput'],
  [/\.diff$/, 'diff'],
  [/\.diff_b$/, 'diffBias'],
  [/\.w_norm$/, 'normWeight'],
  [/\.b_norm$/, 'normBias'],
];

/** Kinds of adapters that cannot be merged, by the ends of their keys. */
const UNSUPPORTED: readonly (readonly [ending: RegExp, kind: string])[] = [
  [/\.oft_(?:blocks|diag|R|s)(?:\.[^.]+)*$/, 'OFT or BOFT'],
  [/\.boft_[Rs](?:\.[^.]+)*$/, 'BOFT'],
  [/\.(?:a[12]|b[12]|bm[12])\.weight$/, 'GLoRA'],
  [/\.vera_lambda_[bd](?:\.[^.]+)*$/, 'VeRA'],
  [/\.(?:up_list|down_list)\.\d+(?:\.weight)?$/, 'DyLoRA'],
];

/** A key, read. */
export interface ParsedKey {
  readonly path: string;
  readonly part: Part;
}

/** Reads a key; null for one that has no known ending. */
export function parseKey(key: string): ParsedKey | null {
  for (const [ending, part] of ENDINGS) {
    const found = ending.exec(key);
    if (found === null) continue;
    return { path: key.slice(0, found.index), part: part ?? (found[1] as Part) };
  }
  return null;
}

/** Whether a checkpoint is an adapter: PEFT's, or with no other keys than those of adapters. */
export function isAdapter(path: string | undefined, keys: readonly string[]): boolean {
  if (keys.length === 0) return false;
  return isPeft(path, keys) || keys.every((key) => parseKey(key) !== null);
}

/** Returns the kind of adapter that a key shows and that cannot be merged; undefined for other keys. */
export function unsupportedKind(key: string): string | undefined {
  return UNSUPPORTED.find(([ending]) => ending.test(key))?.[1];
}

/** The tensors of an adapter by module, and those that are no part of one. */
export interface GroupedKeys<Facts = Tensor> {
  readonly modules: readonly AdapterModule<Facts>[];
  readonly others: readonly PartTensor<Facts>[];
  /** Two keys of the same part, as in a file with several adapters; null if there are none. */
  readonly duplicates: readonly [key: string, other: string] | null;
}

/** Sorts the tensors of an adapter, without the prefix that all keys have. */
export function groupKeys<Facts>(
  tensors: ReadonlyMap<string, Facts>,
  prefix: string,
): GroupedKeys<Facts> {
  const modules = new Map<string, Map<Part, PartTensor<Facts>>>();
  const others: PartTensor<Facts>[] = [];
  let duplicates: [string, string] | null = null;
  const put = (path: string, part: Part, found: PartTensor<Facts>): void => {
    const parts = modules.get(path) ?? new Map<Part, PartTensor<Facts>>();
    const other = parts.get(part);
    if (other !== undefined) duplicates ??= [other.key, found.key];
    parts.set(part, found);
    modules.set(path, parts);
  };
  for (const [key, tensor] of tensors) {
    const parsed = parseKey(key.startsWith(prefix) ? key.slice(prefix.length) : key);
    if (parsed === null) others.push({ key, tensor });
    else put(parsed.path, parsed.part, { key, tensor });
  }
  // LyCORIS's IA3: `weight` next to `on_input`.
  const rest = others.filter(({ key, tensor }) => {
    const path = key.slice(0, -'.weight'.length);
    if (!key.endsWith('.weight') || modules.get(path)?.has('onInput') !== true) return true;
    put(path, 'factors', { key, tensor });
    return false;
  });
  const found = Array.from(modules, ([path, parts]) => ({ path, parts }));
  return { modules: found, others: rest, duplicates };
}
