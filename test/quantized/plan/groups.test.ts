/** Which block of a weight each scale is for. */
import { describe, expect, it } from 'vitest';
import { fp8, infoOf, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

describe('block sizes', () => {
  it('come from the configuration, at ragged edges too', async () => {
    // DeepSeek-V3's kv_a_proj_with_mqa: 576 / 5 is 115.2.
    const tensors: Tensors = {
      'm.weight': ['F8_E4M3', [576, 256]],
      'm.weight_scale_inv': ['F32', [5, 2], 'scales'],
    };
    expect((await infoOf(tensors, fp8())).block).toEqual([128, 128]);
    expect((await infoOf(tensors)).block).toEqual([128, 128]);
    // Dividing would give blocks of 96.
    const wrong: Tensors = {
      'm.weight': ['F8_E4M3', [192, 256]],
      'm.weight_scale_inv': ['F32', [2, 2], 'scales'],
    };
    expect((await infoOf(wrong, fp8())).block).toEqual([128, 128]);
  });

  it('are inferred only as powers of two, or whole axes', async () => {
    const of = (shape: number[], scale: number[]): Tensors => ({
      'm.weight': ['F8_E4M3', shape],
      'm.weight_scale': ['F32', scale, 'scales'],
    });
    expect((await infoOf(of([128, 64], [2, 2]))).block).toEqual([64, 32]);
    expect((await infoOf(of([48, 64], [1, 2]))).block).toEqual([48, 32]);
    expect(await problemOf(of([96, 64], [2, 2]))).toContain('is no grid of scales for [96, 64]');
    expect(await problemOf(of([24, 24], [3, 3]))).toContain('is no grid of scales');
    expect(await problemOf(of([576, 256], [5, 2]), fp8({ weight_block_size: [64, 64] }))).toBe(
      'INVALID: "m.weight_scale" of shape [5, 2] is no grid of scales for [576, 256]; expected [9, 4] for ' +
        'blocks of 64 × 64',
    );
  });

  it('of modelopt may lack axes of 1, and those of experts may be ambiguous', async () => {
    const modelopt = quantization({
      quant_method: 'modelopt',
      quant_algo: 'FP8_PB_WO',
      weight_block_size: [128, 128],
    });
    const squeezed: Tensors = {
      'm.weight': ['F8_E4M3', [256, 128]],
      'm.weight_scale': ['F32', [2, 1, 1, 1], 'scales'],
    };
    expect((await infoOf(squeezed, modelopt)).block).toEqual([128, 128]);
    const square: Tensors = {
      'm.weight': ['F8_E4M3', [2, 8, 8]],
      'm.weight_scale': ['F32', [2, 8], 'scales'],
    };
    expect(await problemOf(square)).toContain('may be for rows or for columns');
    const columns: Tensors = {
      'm.weight': ['F8_E4M3', [2, 8, 6]],
      'm.weight_scale': ['F32', [2, 1, 6], 'scales'],
    };
    expect((await infoOf(columns)).block).toEqual([8, 1]);
    const turned: Tensors = {
      'm.weight': ['F8_E4M3', [4, 4]],
      'm.weight_scale': ['F32', [1, 4], 'scales'],
    };
    expect(await problemOf(turned, fp8())).toContain('of shape [1, 4] is no grid of scales');
  });

  it('of a configuration must be positive integers', async () => {
    for (const given of [[0, 128], [128], 'x', [1.5, 2], [1, 2, 3]]) {
      const work = open({ 'm.weight': ['F32', [1]] }, fp8({ weight_block_size: given }));
      await expect(work).rejects.toThrow('weight_block_size must be two positive integers');
    }
  });
});
