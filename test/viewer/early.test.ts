/** What headers show of a large model before its weights are known. */
import type { RemoteCheckpoint, ShardHeader, TensorEntry } from 'safetensors-mmap';
import { describe, expect, it } from 'vitest';
import { earlyInfo } from '../../viewer/worker/early.js';

type Stored = readonly [name: string, dtype: string, ...shape: number[]];

/** What the header of one file shows. */
function early(tensors: readonly Stored[], metadata: Readonly<Record<string, string>> = {}) {
  const entries = tensors.map(([name, dtype, ...shape], at) => ({
    ...{ name, dtype, shape, dataOffsets: [8 * at, 8 * at + 8] },
  }));
  const header = {
    ...{
      file: 'model.safetensors',
      text: '',
      dataStart: 100,
      metadata: new Map(Object.entries(metadata)),
    },
    tensors: entries as unknown as readonly TensorEntry[],
  } as ShardHeader;
  return earlyInfo({ metadata: null } as RemoteCheckpoint, [header], [['Layers', '2']]);
}

describe('the poster', () => {
  it.each(['I32', 'U8', 'F4', 'F8_E8M0'])('is null with codes of %s', (dtype) => {
    expect(early([['layers.0.up.weight', dtype, 4, 4]]).poster).toBe(null);
    // Another dtype does not make up for it.
    const tensors: Stored[] = [
      ['layers.0.up.weight', 'BF16', 4, 4],
      ['layers.0.down.weight', dtype, 4, 4],
    ];
    expect(early(tensors).poster).toBe(null);
  });

  it.each(['BF16', 'F8_E4M3', 'F8_E5M2', 'I64'])('has a row for weights of %s', (dtype) => {
    const { poster } = early([
      ['embed.weight', dtype, 4, 4],
      ['layers.0.up.weight', dtype, 4, 4],
      ['layers.0.up.weight_scale_inv', 'F32', 1, 1],
      ['layers.2.up.weight', dtype, 4, 4],
      ['layers.2.up.weight_scale', 'F32', 1, 1],
      ['layers.2.scale', dtype, 4],
    ]);
    expect(poster?.layers).toEqual([0, 2]);
    expect(poster?.outside).toEqual([]);
    expect(poster?.rows.map(({ label, cells, isMatrix }) => ({ label, cells, isMatrix }))).toEqual([
      { label: 'up', cells: [[0], [0]], isMatrix: true },
      { label: 'scale', cells: [[], [0]], isMatrix: false },
    ]);
  });

  it('folds the experts of a layer, which have one row', () => {
    const expert = (at: number): Stored => [`layers.0.experts.${at}.up.weight`, 'BF16', 4, 4];
    const row = (count: number) =>
      early(Array.from({ length: count }, (_, at) => expert(at))).poster?.rows;
    expect(row(1)).toMatchObject([{ isFolded: false, cells: [[0]] }]);
    for (const count of [2, 3, 50]) {
      expect(row(count)).toMatchObject([{ isFolded: true, cells: [[0]] }]);
    }
  });
});

it('title, architecture and files are those of the headers', () => {
  const tensor: Stored = ['layers.0.up.weight', 'BF16', 2, 2];
  expect(early([tensor, ['b', 'I32', 2]], { 'modelspec.title': 'A model' })).toMatchObject({
    ...{ title: 'A model', architecture: [['Layers', '2']] },
    files: [{ name: 'model.safetensors', byteLength: 116, tensors: 2 }],
  });
  expect(early([tensor]).title).toBe(null);
});
