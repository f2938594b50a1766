/** GPTQ and AWQ: which is which, and zero points. */
import { describe, expect, it } from 'vitest';
import { fileOf, infoOf, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

describe('GPTQ and AWQ', () => {
  const gptq: Tensors = {
    'm.qweight': ['I32', [8, 32]],
    'm.qzeros': ['I32', [1, 4], Array<number>(4).fill(0x77777777)],
    'm.scales': ['F16', [1, 32], 'scales'],
    'm.g_idx': ['I32', [64], { below: 1 }],
  };
  const awq: Tensors = {
    'm.qweight': ['I32', [64, 4]],
    'm.qzeros': ['I32', [1, 4]],
    'm.scales': ['F16', [1, 32], 'scales'],
  };
  const config = (fields: object): unknown => quantization({ bits: 4, group_size: 64, ...fields });

  it('are told apart by shapes, and must be what the configuration says', async () => {
    expect((await infoOf(gptq, config({ quant_method: 'gptq' }))).scheme).toBe('gptq');
    expect((await infoOf(awq, config({ quant_method: 'awq' }))).scheme).toBe('awq');
    expect(
      (await infoOf(awq, config({ quant_method: 'gptq', checkpoint_format: 'gemm' }))).scheme,
    ).toBe('awq');
    expect(await problemOf(gptq, config({ quant_method: 'awq' }))).toContain('looks like GPTQ');
    expect(await problemOf(awq, config({ quant_method: 'gptq' }))).toContain('looks like AWQ');
  });

  it('of other versions are refused by name', async () => {
    expect(await problemOf(awq, config({ quant_method: 'awq', version: 'gemv' }))).toBe(
      'UNSUPPORTED: AWQ of version "gemv" is not read',
    );
    expect(
      await problemOf(gptq, config({ quant_method: 'gptq', checkpoint_format: 'marlin' })),
    ).toBe('UNSUPPORTED: GPTQ of the format "marlin" is not read');
  });

  it('has bits that the tensors tell where modules differ', async () => {
    const eight = { ...gptq, 'm.qweight': ['I32', [16, 32]], 'm.qzeros': ['I32', [1, 8]] } as const;
    expect(await problemOf(eight, config({ quant_method: 'gptq' }))).toContain('is not of 4 bits');
    const dynamic = config({ quant_method: 'gptq', dynamic: { '+:m': { bits: 8 } } });
    expect((await infoOf(eight, dynamic)).bits).toBe(8);
  });

  it('has a group size that may be -1, but not 0', async () => {
    const { 'm.g_idx': _, ...others } = gptq;
    for (const tensors of [gptq, others]) {
      const all = config({ quant_method: 'gptq', group_size: -1 });
      expect((await infoOf(tensors, all)).block).toEqual([1, 64]);
      const none = config({ quant_method: 'gptq', group_size: 0 });
      expect(await problemOf(tensors, none)).toContain(
        'not 64 columns in groups of 0 (group_size)',
      );
    }
    expect(await problemOf(awq, config({ quant_method: 'awq', group_size: 0 }))).toContain(
      'in groups of 0',
    );
  });

  /** The first value, as a multiple of its scale: the code minus the zero point. */
  async function firstOf(zero: number, fields: object | null): Promise<number> {
    const tensors: Tensors = {
      ...gptq,
      'm.qweight': ['I32', [8, 32], Array<number>(256).fill(0x55555555)],
      'm.qzeros': ['I32', [1, 4], Array<number>(4).fill(zero)],
    };
    const model = await open(
      tensors,
      fields === null ? undefined : config({ quant_method: 'gptq', ...fields }),
    );
    const [scale] = fileOf(tensors).getTensor('m.scales').toFloat32();
    return (model.getTensor('m.weight').toFloat32()[0] as number) / (scale as number);
  }

  it('stores zero points one less, or as they are', async () => {
    expect(await firstOf(0x77777777, {})).toBe(5 - 8);
    expect(await firstOf(0x77777777, { checkpoint_format: 'gptq_v2' })).toBe(5 - 7);
    // Labelled as version 1, stored as they are.
    expect(await firstOf(0x88888888 | 0, { sym: true })).toBe(5 - 8);
    expect(await firstOf(0x88888888 | 0, {})).toBe(5 - 9);
    // Added to whole words, with a carry.
    expect(await firstOf(0x3f, {})).toBe(5 - 0);
    expect(await firstOf(0x77777777, null)).toBe(5 - 8);
    expect(await firstOf(0x88888888 | 0, null)).toBe(5 - 8);
    await expect(firstOf(0x66666666, null)).rejects.toThrow('as they are or one less');
  });
});
