/** The map of bytes: areas are exactly proportional, whatever the model. */
import { describe, expect, it } from 'vitest';
import type { TensorList } from '../../viewer/worker/info.js';
import { type Box, byteMap, type MapBlock } from '../../viewer/worker/treemap.js';

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

/** Samples for a pixel, in each direction: so a browser blends the edges of areas. */
const SAMPLES = 4;

/** Pixels of blocks, of samples in their middles. No sample is in two blocks, or in none. */
function sampleCounts(blocks: readonly MapBlock[], width: number, height: number): Float64Array {
  const owners = new Int32Array(width * height * SAMPLES ** 2).fill(-1);
  const counts = new Float64Array(blocks.length);
  const range = (from: number, to: number) => [
    Math.ceil(from * SAMPLES - 0.5),
    Math.ceil(to * SAMPLES - 0.5),
  ];
  for (const [at, { x, y, w, h }] of blocks.entries()) {
    const [left, right] = range(x, x + w) as [number, number];
    const [top, bottom] = range(y, y + h) as [number, number];
    for (let row = top; row < Math.min(bottom, height * SAMPLES); row++) {
      for (let column = left; column < Math.min(right, width * SAMPLES); column++) {
        const place = row * width * SAMPLES + column;
        if (owners[place] !== -1) throw new Error(`two blocks at ${column}, ${row}`);
        owners[place] = at;
        counts[at] = (counts[at] as number) + SAMPLES ** -2;
      }
    }
  }
  if (owners.includes(-1)) throw new Error('a part of the map has no block');
  return counts;
}

function isIn(inner: Box, outer: Box): boolean {
  const [x, y] = [inner.x + inner.w / 2, inner.y + inner.h / 2];
  return x >= outer.x && x < outer.x + outer.w && y >= outer.y && y < outer.y + outer.h;
}

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

  it.each([SIZE, { width: 340, height: 420 }])(
    'has pixels in proportion, too, at $width × $height: within 1 % for blocks of 12 pixels and more',
    ({ width, height }) => {
      const map = byteMap(list, { width, height, prefix: '' });
      const counts = sampleCounts(map.blocks, width, height);
      const total = list.byteLength.reduce((sum, one) => sum + one, 0);
      const perByte = (width * height) / total;
      const isLarge = ({ w, h }: Box) => Math.min(w, h) >= 12;
      for (const [at, block] of map.blocks.entries()) {
        if (!isLarge(block)) continue;
        const share = (counts[at] as number) / (bytesOf(list, block) * perByte);
        expect(Math.abs(share - 1)).toBeLessThan(0.01);
      }
      for (const group of map.groups.filter(isLarge)) {
        const inside = map.blocks.map(
          (block, at) => (isIn(block, group) ? counts[at] : 0) as number,
        );
        const share = inside.reduce((sum, one) => sum + one, 0) / (group.byteLength * perByte);
        expect(Math.abs(share - 1)).toBeLessThan(0.01);
      }
    },
  );

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

  it('that are nearly all of a labelled part need no label, but are not without one', () => {
    const list = listOf([
      ['h.c_fc.weight', 100],
      ['h.c_fc.bias', 1],
      ['h.c_proj.weight', 60],
      ['h.c_proj.bias', 30],
    ]);
    const { blocks } = byteMap(list, { ...SIZE, prefix: '' });
    const named = blocks.filter(({ isNamed }) => isNamed).map(({ tensors }) => tensors);
    expect(named).toEqual([[0]]);
    const only = byteMap(listOf([['w', 10]]), { ...SIZE, prefix: '' });
    expect(only.blocks.map(({ isNamed }) => isNamed)).toEqual([false]);
  });

  it('of nothing are no blocks', () => {
    expect(byteMap(listOf([['empty', 0]]), { ...SIZE, prefix: '' })).toEqual({
      blocks: [],
      groups: [],
    });
  });
});
