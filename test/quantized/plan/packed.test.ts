/** Codes in words of 32 bits: which packing. */
import { describe, expect, it } from 'vitest';
import { group, infoOf, problemOf, type Tensors } from '../opened-tensors.js';

describe('packing', () => {
  const packed = (bits: number, columns: number, words: number): Tensors => ({
    'm.weight_packed': ['I32', [4, words]],
    'm.weight_scale': ['F32', [4, 1], 'scales'],
    'm.weight_shape': ['I64', [2], [4, columns]],
    ...(bits < 0 ? { 'm.weight_zero_point': ['I32', [3, 1]] as const } : {}),
  });
  const channel = (bits: number): unknown => group({ num_bits: bits, strategy: 'channel' });

  it('of compressed-tensors is told by the number of words, or refused', async () => {
    expect((await infoOf(packed(3, 101, 10), channel(3))).bits).toBe(3);
    expect((await infoOf(packed(3, 101, 11), channel(3))).bits).toBe(3);
    expect(await problemOf(packed(3, 70, 7), channel(3))).toContain('more than one packing fits');
    // One word has both: the same bits.
    expect((await infoOf(packed(3, 10, 1), channel(3))).shape).toEqual([4, 10]);
    expect(await problemOf(packed(4, 64, 9), channel(4))).toContain('no packing fits');
    expect((await infoOf(packed(4, 64, 8))).bits).toBe(4);
  });

  it('needs zero points in the same packing', async () => {
    expect(await problemOf(packed(-4, 64, 8), channel(4))).toContain(
      'to be I32 of shape [1, 1], found I32 of shape [3, 1]',
    );
  });

  it('of MLX needs the configuration', async () => {
    const tensors: Tensors = {
      'm.weight': ['U32', [4, 8]],
      'm.scales': ['F16', [4, 1], 'scales'],
      'm.biases': ['F16', [4, 1], 'scales'],
    };
    const mlx = (fields: object): unknown => ({ quantization: fields });
    expect((await infoOf(tensors, mlx({ bits: 4, group_size: 64 }))).shape).toEqual([4, 64]);
    expect((await infoOf(tensors, mlx({ bits: 8, group_size: 32 }))).shape).toEqual([4, 32]);
    const own = mlx({ bits: 8, group_size: 32, m: { bits: 2, group_size: 128 } });
    expect((await infoOf(tensors, own)).shape).toEqual([4, 128]);
    expect(await problemOf(tensors)).toContain('must have bits and group_size');
    expect(await problemOf(tensors, mlx({ bits: 4, group_size: 32 }))).toContain(
      'need [4, 2], and biases alike',
    );
    expect(await problemOf(tensors, mlx({ bits: 7, group_size: 32 }))).toContain(
      "UNSUPPORTED: MLX's codes of 7 bits",
    );
  });
});
