/**
 * Names and shapes of the tensors that are written. The model is like Llama with a billion
 * parameters: 16 layers, hidden size 2048, feed-forward size 8192, 32 heads of which 8 for keys and
 * values, vocabulary 128256, a separate output matrix: 147 tensors, 3.0 GB in BF16.
 */

/** One tensor of a file to be written. */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes of its data. */
  readonly byteLength: number;
}

/** The sizes that make up a model of this family. */
export interface ModelSizes {
  readonly layers: number;
  readonly hidden: number;
  readonly vocabulary: number;
}

const LAYERS = 16;
const FULL_HIDDEN = 2048;
const FULL_VOCABULARY = 128_256;
const BF16_BYTES = 2;

/** Smallest size that keeps every matrix of the family larger than a few rows. */
export const MIN_MODEL_BYTES = 1_000_000;

function parametersOfLayers(layers: number, hidden: number): number {
  const attention = 2 * hidden * hidden + 2 * hidden * (hidden / 4);
  const feedForward = 3 * hidden * (4 * hidden);
  return layers * (attention + feedForward + 2 * hidden) + hidden;
}

/**
 * Sizes whose BF16 weights come as near to `byteLength` as whole rows allow. Width and vocabulary
 * shrink or grow together; the vocabulary takes up what the steps of the width leave over.
 */
export function modelSizes(byteLength: number): ModelSizes {
  const fullParameters =
    parametersOfLayers(LAYERS, FULL_HIDDEN) + 2 * FULL_VOCABULARY * FULL_HIDDEN;
  const scale = Math.sqrt(byteLength / (fullParameters * BF16_BYTES));
  // Heads are 64 wide and four of them share keys and values, so a real width is a multiple of 256.
  const ideal = FULL_HIDDEN * scale;
  const step = ideal >= 256 ? 256 : 16;
  const hidden = Math.max(step, Math.floor((ideal + 1e-6) / step) * step);
  const rest = byteLength / BF16_BYTES - parametersOfLayers(LAYERS, hidden);
  return { layers: LAYERS, hidden, vocabulary: Math.max(1, Math.round(rest / (2 * hidden))) };
}

/** The tensors of such a model in the order of the modules; all BF16, all of whole 8-byte words. */
export function modelTensors(sizes: ModelSizes): TensorSpec[] {
  const { layers, hidden, vocabulary } = sizes;
  const tensor = (name: string, ...shape: number[]): TensorSpec => ({
    name,
    dtype: 'BF16',
    shape,
    byteLength: shape.reduce((product, dimension) => product * dimension, BF16_BYTES),
  });
  const tensors = [tensor('model.embed_tokens.weight', vocabulary, hidden)];
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}`;
    tensors.push(
      tensor(`${prefix}.self_attn.q_proj.weight`, hidden, hidden),
      tensor(`${prefix}.self_attn.k_proj.weight`, hidden / 4, hidden),
      tensor(`${prefix}.self_attn.v_proj.weight`, hidden / 4, hidden),
      tensor(`${prefix}.self_attn.o_proj.weight`, hidden, hidden),
      tensor(`${prefix}.mlp.gate_proj.weight`, 4 * hidden, hidden),
      tensor(`${prefix}.mlp.up_proj.weight`, 4 * hidden, hidden),
      tensor(`${prefix}.mlp.down_proj.weight`, hidden, 4 * hidden),
      tensor(`${prefix}.input_layernorm.weight`, hidden),
      tensor(`${prefix}.post_attention_layernorm.weight`, hidden),
    );
  }
  tensors.push(tensor('model.norm.weight', hidden), tensor('lm_head.weight', vocabulary, hidden));
  return tensors;
}

/**
 * A model of this family of about `byteLength` bytes with norms and output matrix in F32, as trained
 * checkpoints often have them, and one matrix in F8_E4M3.
 */
export function mixedTensors(byteLength: number): TensorSpec[] {
  const sizes = modelSizes(byteLength);
  // Of the two matrices with rows for the vocabulary, one is twice as large as in BF16.
  const vocabulary = Math.max(1, Math.round((sizes.vocabulary * 2) / 3));
  return modelTensors({ ...sizes, vocabulary }).map((tensor) => {
    if (/norm\.weight$|^lm_head\./.test(tensor.name)) {
      return { ...tensor, dtype: 'F32', byteLength: tensor.byteLength * 2 };
    }
    if (tensor.name === F8_NAME) {
      return { ...tensor, dtype: 'F8_E4M3', byteLength: tensor.byteLength / 2 };
    }
    return tensor;
  });
}

/** The matrix of a mixed model that is F8_E4M3. */
export const F8_NAME = 'model.layers.15.self_attn.q_proj.weight';

/**
 * So many tensors of 512 bytes, named as in a model of very many layers; short enough that the
 * header of a million stays below the 100 MB that the format allows.
 */
export function manySmallTensors(count: number): TensorSpec[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `layers.${Math.floor(index / 10)}.expert.${index % 10}`,
    dtype: 'BF16',
    shape: [16, 16],
    byteLength: 512,
  }));
}
