/** Tensors that safetensors cannot hold: reported together, and no problem when they are left out. */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openNumpy } from '../../../src/foreign/numpy/open-numpy.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { SelectionError } from '../../../src/write/selection/selection-error.js';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import { dict, legacyFile, tensor } from '../../foreign/torch/legacy-file.js';
import { convert, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const fast = { durable: false, overwrite: true };
/** Both are made of storage 0. */
const layout = `ctorch.serialization\n_get_layout\n${unicode('torch.sparse_coo')}\x85R`;
const sparse = `ctorch._utils\n_rebuild_sparse_tensor\n${layout}(${tensor('0', [2])}${tensor('0', [2])}K\x05\x85t\x86R`;
const storage = `(${unicode('storage')}ctorch\nQInt32Storage\n${unicode('1')}${unicode('cpu')}K\x02NtQ`;
const quantized =
  `ctorch._utils\n_rebuild_qtensor\n(${storage}K\0(K\x02t(K\x01t` +
  `ctorch\nper_tensor_affine\nG\x3f\xe0\0\0\0\0\0\0K\0\x87\x89}tR`;

/** Over storage 2. */
const complex = tensor('2', [2]).replace('_v2', '_v3').replace(/tR$/, 'ctorch\ncomplex32\ntR');

function mixed(...names: readonly string[]): string {
  return legacyFile(
    dict(
      [unicode(`${names[0]}`), tensor('0', [2])],
      [unicode(`${names[1]}`), sparse],
      [unicode(`${names[2]}`), quantized],
    ),
    { 0: 2, 1: 2 },
  );
}

function keysOf(path: string): string[] {
  using file = safeOpen(path);
  return file.keys();
}

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return await promise.then(
    () => expect.unreachable(),
    (error: Error) => error,
  );
}

describe('tensors that safetensors cannot hold', () => {
  it('are in problems, each with its reason, and the others are read', async () => {
    using checkpoint = openTorchCheckpoint(mixed('w', 'a', 'b'));
    expect([checkpoint.size, checkpoint.keys(), [...checkpoint].length]).toEqual([1, ['w'], 1]);
    expect(checkpoint.getTensor('w').data).toEqual(Float32Array.of(0, 1));
    expect([...(await checkpoint.readTensors()).keys()]).toEqual(['w']);
    const [a, b, ...others] = checkpoint.problems;
    expect([a?.tensor, b?.tensor, others]).toEqual(['a', 'b', []]);
    expect(a).toMatchObject({ code: 'SAFETENSORS_UNSUPPORTED_TENSOR' });
    expect(a?.message).toContain('a sparse tensor');
    expect(b?.message).toContain('a quantized tensor');
    for (const use of [
      () => checkpoint.getTensor('a'),
      () => checkpoint.info('a'),
      () => checkpoint.getSlice('a', 0),
      () => checkpoint.getTensors(['w', 'a']),
    ]) {
      expect(use).toThrow(a as Error);
    }
    await expect(checkpoint.readTensors(['a'])).rejects.toBe(a);
    checkpoint.close();
    expect(checkpoint.problems).toHaveLength(2);
  });

  it.each([
    [
      'a part of a sparse one that lies outside of its storage',
      sparse.replace('K\0(K\x02t', 'K\x01(K\x02t'),
    ],
    ['other arguments of a sparse one', 'ctorch._utils\n_rebuild_sparse_tensor\n)R'],
    ['a sparse one of sparse ones', sparse.replace(tensor('0', [2]), sparse)],
    [
      'a quantized one that lies outside of its storage',
      quantized.replace('K\0(K\x02t', 'K\x04(K\x02t'),
    ],
    ['other arguments of a quantized one', 'ctorch._utils\n_rebuild_qtensor\n)R'],
    ['a complex32 one that lies outside of its storage', complex.replace('K\0(', 'K\x01(')],
    ['a state that changes it', `${sparse}(${tensor('0', [2])}tb`],
  ])('are refused with the whole file when torch would not read them: %s', (_, value) => {
    const path = legacyFile(dict([unicode('w'), tensor('0', [2])], [unicode('x'), value]), {
      ...{ 0: 2, 1: 2, 2: 2 },
    });
    expect(() => openTorchCheckpoint(path)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/INVALID_(TORCH|PICKLE)/) }),
    );
  });

  it('are all reported, each with its reason, together with the problems of the selection', async () => {
    const target = temporaryPath('model.safetensors');
    const error = await failureOf(
      convert(mixed('w', 'a', 'b'), target, { ...fast, rename: { x: 'y' } }),
    );
    expect(error).toBeInstanceOf(SelectionError);
    expect((error as SelectionError).errors.map(({ code, tensor: name }) => [code, name])).toEqual([
      ['SAFETENSORS_TENSOR_NOT_FOUND', 'x'],
      ['SAFETENSORS_UNSUPPORTED_TENSOR', 'a'],
      ['SAFETENSORS_UNSUPPORTED_TENSOR', 'b'],
    ]);
    expect(error.message).toMatch(/tensor "a": .* a sparse tensor/);
    expect(error.message).toMatch(/tensor "b": .* a quantized tensor/);
    expect(existsSync(target)).toBe(false);
  });

  it('are no problem when they are left out, by name or by a function, also when others are cast', async () => {
    const source = mixed('w', 'a', 'b');
    for (const options of [
      { names: ['w'] },
      { names: (_: string, { dtype }: { dtype: unknown }) => dtype !== null },
      { names: (name: string) => name === 'w', dtype: () => 'F16' as const },
    ]) {
      const target = temporaryPath('model.safetensors');
      await convert(source, target, { ...fast, ...options });
      expect(keysOf(target)).toEqual(['w']);
    }
    const left = convert(source, temporaryPath('x.safetensors'), { ...fast, names: ['w', 'a'] });
    expect(await failureOf(left)).toMatchObject({
      code: 'SAFETENSORS_UNSUPPORTED_TENSOR',
      tensor: 'a',
    });
  });

  it('of all shards are reported together, and can be left out', async () => {
    const folder = temporaryPath('sharded');
    mkdirSync(folder);
    cpSync(mixed('w', 'a', 'b'), join(folder, 'pytorch_model-00001-of-00002.bin'));
    cpSync(mixed('v', 'c', 'd'), join(folder, 'pytorch_model-00002-of-00002.bin'));
    const index = join(folder, 'pytorch_model.bin.index.json');
    const names = { 1: ['w', 'a', 'b'], 2: ['v', 'c'] };
    const weightMap = Object.entries(names).flatMap(([shard, some]) =>
      some.map((name) => [name, `pytorch_model-0000${shard}-of-00002.bin`]),
    );
    writeFileSync(index, JSON.stringify({ weight_map: Object.fromEntries(weightMap) }));
    {
      using checkpoint = openTorchCheckpoint(index);
      expect([checkpoint.size, checkpoint.keys()]).toEqual([2, ['v', 'w']]);
      // Also d, which is in a shard and which the index does not name.
      expect(checkpoint.problems.map(({ tensor: name }) => name)).toEqual(['a', 'b', 'c', 'd']);
      expect(checkpoint.has('c')).toBe(false);
      expect(() => checkpoint.getTensor('c')).toThrow(checkpoint.problems[2] as Error);
      expect(() => checkpoint.getTensor('d')).toThrow(checkpoint.problems[3] as Error);
    }
    const target = temporaryPath('model.safetensors');
    await convert(index, target, { ...fast, names: ['w', 'v'] });
    expect(keysOf(target)).toEqual(['v', 'w']);
  });

  it('are arrays of objects of an npz too', async () => {
    const source = fixturePath('np-x-npz-object.npz');
    {
      using arrays = openNumpy(source);
      expect(arrays.keys()).toEqual(['ok']);
      expect(() => arrays.info('bad')).toThrow(arrays.problems[0] as Error);
    }
    const target = temporaryPath('model.safetensors');
    await expect(convert(source, target, fast)).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSUPPORTED_TENSOR',
      tensor: 'bad',
    });
    await convert(source, target, { ...fast, names: ['ok'] });
    expect(keysOf(target)).toEqual(['ok']);
  });

  it('are others than damaged ones, which no selection makes good', async () => {
    const source = legacyFile(
      dict([unicode('w'), tensor('0', [2])], [unicode('out'), tensor('0', [2], [9])]),
      { 0: 2 },
    );
    const converted = convert(source, temporaryPath('m.safetensors'), { ...fast, names: ['w'] });
    expect(await failureOf(converted)).toMatchObject({
      code: 'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
    });
  });
});
