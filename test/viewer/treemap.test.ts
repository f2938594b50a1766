/** The map of bytes: areas are exactly proportional, whatever the model. */
import { describe, expect, it } from 'vitest';
import type { TensorList } from '../../viewer/worker/info.js';
import { byteMap, type MapBlock } from '../../viewer/worker/treemap.js';

const SIZE = { width: 1046, height: 664 };

/** A list of names and bytes. */
function listOf(tensors: readonly (readonly [name: string, bytes: number])[]): TensorList {
  const names = tensors.map(([name]) => name);
  const byteLength = Float64Array.from(tensors, ([, bytes]) => bytes);
  return { names, byteLength } as unknown as TensorList;
}

const range = (count: number) => Array.from({ length: count }, (_, at) => at);

const GPT2 = listOf([
  ['wte.weight', 154_389_504],
  ['wpe.weight', 3_145_728],
  ...range(12).flatMap((layer): [string, number][] => [
    [`h.${layer}.attn.c_attn.weight`, 7_077_888],
    [`h.${layer}.attn.c_proj.weight`, 2_359_296],
    [`h.${layer}.mlp.c_fc.weight`, 9_437_184],
    [`h.${layer}.mlp.c_fc.bias`, 12_288],
    [`h.${layer}.mlp.c_proj.weight`, 9_437_184],
    [`h.${layer}.ln_1.weight`, 3072],
  ]),
]);

const EXPERTS = 256;
const MOE = listOf([
  ['model.embed_tokens.weight', 1_853_358_080],
  ...range(61).flatMap((layer): [string, number][] => [
    [`model.layers.${layer}.self_attn.o_proj.weight`, 117_440_512],
    [`model.layers.${layer}.input_layernorm.weight`, 14_336],
    ...range(layer < 3 ? 0 : EXPERTS).flatMap((expert): [string, number][] =>
      ['gate_proj', 'up_proj', 'down_proj'].map((part) => [
        `model.layers.${layer}.mlp.experts.${expert}.${part}.weight`,
        14_680_064,
      ]),
    ),
  ]),
]);

const bytesOf = ({ byteLength }: TensorList, { tensors }: MapBlock) =>
  tensors.reduce((sum, at) => sum + (byteLength[at] as number), 0);

describe.each([
  ['GPT-2', GPT2],
  ['a mixture of experts', MOE],
])('the map of %s', (_, list) => {
  const { blocks, groups } = byteMap(list, { ...SIZE, prefix: '' });

  it('has every tensor once', () => {
    const shown = blocks.flatMap(({ tensors }) => tensors).sort((a, b) => a - b);
    expect(shown).toEqual([...list.names.keys()]);
  });

  it('has areas that are proportional to bytes', () => {
    const total = list.byteLength.reduce((sum, one) => sum + one, 0);
    const perByte = (SIZE.width * SIZE.height) / total;
    const deviations = blocks.map((block) =>
      Math.abs((block.w * block.h) / (bytesOf(list, block) * perByte) - 1),
    );
    expect(Math.max(...deviations)).toBeLessThan(1e-9);
    for (const { w, h, byteLength } of groups) {
      expect((w * h) / (byteLength * perByte)).toBeCloseTo(1, 9);
    }
  });

  it('covers itself without gaps and overlaps', () => {
    for (let x = 0.5; x < SIZE.width; x += 61) {
      for (let y = 0.5; y < SIZE.height; y += 53) {
        const there = blocks.filter(
          (one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + one.h,
        );
        expect(there.length).toBe(1);
      }
    }
  });
});

describe('parts of names', () => {
  it('are one block where their tensors would be too small, until they are zoomed in', () => {
    const { blocks } = byteMap(MOE, { ...SIZE, prefix: '' });
    const experts = blocks.filter(({ group }) => group?.prefix.includes('.experts.'));
    expect(experts.length).toBe(58 * EXPERTS);
    expect(experts[0]?.group).toMatchObject({ label: '0', byteLength: 3 * 14_680_064 });
    // In reading order.
    const layer = experts.filter(({ group }) => group?.prefix.startsWith('model.layers.3.'));
    const order = layer.map(({ group }) => Number(group?.label));
    expect(order).toEqual(range(EXPERTS));
    const prefix = 'model.layers.3.mlp.experts.7.';
    const zoomed = byteMap(MOE, { ...SIZE, prefix });
    expect(zoomed.blocks.map(({ group }) => group)).toEqual([null, null, null]);
  });

  it('without siblings are joined with what is in them, and need a label unless they are all', () => {
    const list = listOf([
      ['all.a.b.x', 2],
      ['all.a.b.y', 2],
      ['all.d.x', 2],
      ['all.d.y', 2],
      ['norm', 0.001],
    ]);
    const { groups } = byteMap(list, { ...SIZE, prefix: '' });
    expect(groups.map(({ label }) => label)).toEqual(['a.b', 'd']);
  });

  it('of nothing are no blocks', () => {
    expect(byteMap(listOf([['empty', 0]]), { ...SIZE, prefix: '' })).toEqual({
      blocks: [],
      groups: [],
    });
  });
});
