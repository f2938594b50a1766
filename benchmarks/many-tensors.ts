import type { TensorSpec } from './model.js';

/** Tensors per layer of the names that are made. */
const PER_LAYER = 10;
const SHAPE = [16, 16];
const BYTE_LENGTH = 512;

/**
 * So many small BF16 tensors, named as in a model of very many layers; short enough that the header
 * of a million stays below the 100 MB that the format allows.
 */
export function manySmallTensors(count: number): TensorSpec[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `layers.${Math.floor(index / PER_LAYER)}.expert.${index % PER_LAYER}`,
    dtype: 'BF16',
    shape: SHAPE,
    byteLength: BYTE_LENGTH,
  }));
}
