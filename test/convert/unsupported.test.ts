/** Tensors that safetensors cannot hold: reported together, and no problem when they are left out. */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convert } from '../../src/convert/convert.js';
import { ForeignFormatError } from '../../src/errors/errors.js';
import { openNumpy } from '../../src/foreign/numpy/open-numpy.js';
import { openTorchCheckpoint } from '../../src/foreign/torch/open.js';
import { safeOpen } from '../../src/index.js';
import { SelectionError } from '../../src/selection/selection-error.js';
import { unicode } from '../foreign/pickle/pickle-bytes.js';
import { fixturePath } from '../foreign/torch/fixtures.js';
import { dict, legacyFile, tensor } from '../foreign/torch/legacy-file.js';
import { temporaryPath } from '../support/make-file.js';

const fast = { durable: false };
const sparse = 'ctorch._utils\n_rebuild_sparse_tensor\n)R';
const quantized = 'ctorch._utils\n_rebuild_qtensor\n)R';

function mixed(...names: readonly string[]): string {
  return legacyFile(
    dict(
      [unicode(`${names[0]}`), tensor('0', [2])],
      [unicode(`${names[1]}`), sparse],
      [unicode(`${names[2]}`), quantized],
    ),
    { 0: 2 },
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

  it('are no problem when they are left out, by name, by a function or by select', async () => {
    const source = mixed('w', 'a', 'b');
    for (const options of [
      { names: ['w'] },
      { names: (_: string, { dtype }: { dtype: unknown }) => dtype !== null },
      { select: (name: string) => (name === 'w' ? {} : (false as const)) },
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
    const refused = (): unknown => openTorchCheckpoint(index);
    expect(refused).toThrow(ForeignFormatError);
    expect(refused).toThrow(/3 tensors cannot be read:\n.*"a": .*\n.*"b": .*\n.*"c": /);
    const target = temporaryPath('model.safetensors');
    await convert(index, target, { ...fast, names: ['w', 'v'] });
    expect(keysOf(target)).toEqual(['v', 'w']);
  });

  it('are arrays of objects of an npz too', async () => {
    const source = fixturePath('np-x-npz-object.npz');
    expect(() => openNumpy(source)).toThrow(ForeignFormatError);
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
