/** What configurations contain, and what they may cost. */
import { describe, expect, it } from 'vitest';
import { group, infoOf, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

describe('configurations', () => {
  it('with patterns that take too long are refused', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `${'m'.repeat(1000)}${i}.weight`);
    const tensors: Tensors = Object.fromEntries(
      names.map((name) => [name, ['U8', [1, 1]] as const]),
    );
    const ignore = Array.from({ length: 30_000 }, (_, i) => `*a*b*${i}`);
    const model = await open(tensors, group({}, { ignore }));
    expect(model.keys()).toEqual([]);
    expect(model.problems.at(-1)?.message).toContain('take too long to match');
  });

  it('prefer exact names to patterns, and these to classes', async () => {
    const tensors: Tensors = {
      'm.weight': ['I8', [4, 64]],
      'm.weight_scale': ['F32', [4, 2], 'scales'],
    };
    const groups = (targets: readonly string[][]): unknown =>
      quantization({
        quant_method: 'compressed-tensors',
        config_groups: Object.fromEntries(
          targets.map((target, i) => [
            `g${i}`,
            { targets: target, weights: { strategy: 'group', group_size: [16, 32][i] } },
          ]),
        ),
      });
    expect((await infoOf(tensors, groups([['Linear'], ['re:.*m']]))).block).toEqual([1, 32]);
    expect((await infoOf(tensors, groups([['re:.*m'], ['m']]))).block).toEqual([1, 32]);
    expect(await problemOf(tensors, groups([['Linear'], ['n']]))).toContain(
      'does not fit groups of 16 columns',
    );
  });

  it('may have anything in them', async () => {
    for (const config of [
      null,
      {},
      { quantization_config: 5 },
      { quantization_config: [] },
      { text_config: 'x' },
    ]) {
      expect((await open({ 'm.weight': ['F32', [1]] }, config)).quantMethod).toBe(null);
    }
    const nested = { text_config: { quantization_config: { quant_method: 'FP8' } } };
    expect((await open({ 'm.weight': ['F32', [1]] }, nested)).quantMethod).toBe('fp8');
  });
});
