/** Checkpoints as JSON, for makers and the fuzzer, and their bytes. */
import { DTYPES, type Dtype } from 'safetensors-mmap';
import { Random } from '../support/random.js';
import type { RuleFacts, RuleTensor } from './rules.js';

/** What a tensor holds: random bytes, numbers that are scales, integers below a number, or these. */
export type Content =
  | 'random'
  | 'scales'
  | { readonly below: number }
  | readonly number[]
  | { readonly text: string };

/** A tensor of a made checkpoint. */
export interface MadeTensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly content: Content;
}

/** A checkpoint with one quantized weight. */
export interface MadeCheckpoint {
  readonly config: unknown;
  readonly tensors: Readonly<Record<string, MadeTensor>>;
}

/** The bytes of a tensor; the same for the same seed. Exponents are near that of 1, so that values stay finite. */
export function bytesOf(
  { dtype, shape, content }: MadeTensor,
  seed: number,
): Uint8Array<ArrayBuffer> {
  const elements = shape.reduce((a, b) => a * b, 1);
  const width = DTYPES[dtype].bits / 8;
  const bytes = new Uint8Array(Math.ceil(elements * width));
  const random = new Random(seed, elements);
  if (typeof content === 'object' && 'text' in content) {
    new TextEncoder().encodeInto(content.text, bytes);
    return bytes;
  }
  for (let i = 0; content === 'random' && i < bytes.length; i++) bytes[i] = random.below(256);
  const view = new DataView(bytes.buffer);
  for (let i = 0; content !== 'random' && i < elements; i++) {
    const own = Array.isArray(content) ? Number(content[i] ?? 0) : 0;
    const value =
      content === 'scales'
        ? (random.below(255) + 1) / 64
        : 'below' in content
          ? random.below(content.below)
          : own;
    if (dtype === 'F32') view.setFloat32(4 * i, value / 3, true);
    else if (dtype === 'BF16') view.setUint16(2 * i, 0x3c00 + random.below(0x400), true);
    else if (dtype === 'F16') view.setUint16(2 * i, 0x2000 + random.below(0x1c00), true);
    else if (width === 1) bytes[i] = content === 'scales' ? 96 + random.below(30) : value;
    else if (dtype === 'I64') view.setBigInt64(8 * i, BigInt(Math.trunc(value)), true);
    else if (width === 4) view.setInt32(4 * i, value, true);
  }
  return bytes;
}

/** All tensors of a made checkpoint. */
export function storedTensors(
  { tensors }: MadeCheckpoint,
  seed: number,
): Map<string, RuleTensor & { dtype: Dtype }> {
  const entries = Object.entries(tensors).map(([name, tensor], i) => {
    const { dtype, shape } = tensor;
    return [name, { dtype, shape, bytes: bytesOf(tensor, seed + i) }] as const;
  });
  return new Map(entries);
}

/** The checkpoint, and what must be said of its weight. */
export interface MadeWeight extends MadeCheckpoint {
  readonly name: string;
  readonly facts: Omit<RuleFacts, 'parts'>;
  /** Stored names by what they are. */
  readonly storedAs: Readonly<Record<string, string>>;
}

/** Makes a weight. */
export type Maker = (random: Random) => MadeWeight;

/** The module. */
export const NAME = 'model.layers.0.mlp.down_proj';
/** Its weight. */
export const WEIGHT = `${NAME}.weight`;
/** Dtypes of scales. */
export const FLOATS = ['F32', 'BF16', 'F16'] as const;

/** Rounds a quotient up. */
export const cd = (a: number, b: number): number => Math.ceil(a / b);
/** A tensor of random bytes. */
export const codes = (dtype: Dtype, shape: readonly number[]): MadeTensor => ({
  dtype,
  shape,
  content: 'random',
});
/** A tensor of small positive numbers. */
export const scales = (dtype: Dtype, shape: readonly number[]): MadeTensor => ({
  dtype,
  shape,
  content: 'scales',
});

/** Where the weights and their companions are named in the configuration of compressed-tensors. */
export function group(weights: object, format?: string): unknown {
  const config_groups = { group_0: { targets: ['Linear'], weights, format } };
  return {
    quantization_config: { quant_method: 'compressed-tensors', config_groups, ignore: ['lm_head'] },
  };
}
