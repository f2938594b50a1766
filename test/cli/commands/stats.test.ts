import { expect, it } from 'vitest';
import type { TensorInput } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { writeTensors } from '../../support/write-tensors.js';
import { call, printed } from '../call.js';
import { UNSAFE_OUTPUT } from '../hostile.js';

function f32(...values: readonly number[]): TensorInput {
  return { dtype: 'F32', shape: [values.length], data: Float32Array.from(values) };
}

function model(): string {
  const path = temporaryPath('model.safetensors');
  writeTensors(path, {
    'layers.0.w': f32(1, 2, 3),
    'layers.1.w': f32(-4, Number.NaN, Number.POSITIVE_INFINITY, 0),
    'say "hi", x\u001b[2J': f32(7),
    none: f32(),
    complex: { dtype: 'C64', shape: [1], data: Float32Array.of(3, -4) },
  } as Parameters<typeof writeTensors>[1]);
  return path;
}

const names = (text: string): string[] =>
  JSON.parse(text).tensors.map(({ name }: { name: string }) => name);

it('has the numbers of `show --stats` of every tensor, in the order of the file', async () => {
  const path = model();
  const { tensors } = JSON.parse(await printed(['stats', path, '--json']));
  expect(tensors).toHaveLength(5);
  for (const { name, dtype, shape, ...stats } of tensors) {
    if (dtype === 'C64') expect(stats).toMatchObject({ min: -4, max: 3, elements: 2 });
    else {
      const shown = JSON.parse(await printed(['show', path, name, '--stats', '--json']));
      expect({ dtype, shape, stats }).toEqual({
        ...{ dtype: shown.dtype, shape: shown.shape, stats: shown.stats },
      });
    }
  }
});

it('chooses by pattern and sorts: numbers descending, tensors without any last', async () => {
  const path = model();
  const sort = async (...args: string[]): Promise<string[]> =>
    names(await printed(['stats', path, '--json', ...args]));
  expect(await sort('--filter', 'layers.*', '--sort', 'max')).toEqual(['layers.0.w', 'layers.1.w']);
  expect(await sort('--filter', 'layers.*', '--sort', 'nan')).toEqual(['layers.1.w', 'layers.0.w']);
  expect((await sort('--sort', 'max')).at(-1)).toBe('none');
  expect((await sort('--sort', 'name'))[0]).toBe('complex');
});

it('prints CSV with all digits, quoted where needed, harmless on a terminal', async () => {
  const csv = await printed([
    'stats',
    model(),
    '--csv',
    '--filter',
    'layers.*',
    '--filter',
    'say*',
  ]);
  expect(csv).not.toMatch(UNSAFE_OUTPUT);
  expect(csv.split('\n')).toEqual([
    'name,dtype,shape,min,max,mean,std,zeros,nan,inf',
    `layers.0.w,F32,3,1,3,2,${Math.sqrt(2 / 3)},0,0,0`,
    'layers.1.w,F32,4,-4,0,-2,2,1,1,1',
    expect.stringMatching(/^"say ""hi"", x.*\[2J",F32,1,7,7,7,0,0,0,0$/),
    '',
  ]);
});

it('fails for a requested weight that cannot be dequantized', async () => {
  const path = temporaryPath('model.safetensors');
  writeTensors(path, {
    'a.weight': { dtype: 'I8', shape: [2, 2], data: Int8Array.of(1, 2, 3, 4) },
    'a.weight_scale': f32(1, 1),
    b: f32(5),
  } as Parameters<typeof writeTensors>[1]);
  const { code, stderr } = await call(['stats', path]);
  expect(code).toBe(1);
  expect(stderr).toContain('"a.weight"');
  const shown = await call(['show', path, 'a.weight']);
  expect([shown.code, shown.stderr]).toEqual([1, stderr]);
  expect(names(await printed(['stats', path, '--json', '--filter', 'b']))).toEqual(['b']);
  expect(names(await printed(['stats', path, '--json', '--raw']))).toHaveLength(3);
});

it('dequantizes quantized weights, with --raw it has the stored tensors', async () => {
  const path = temporaryPath('fp8.safetensors');
  writeTensors(path, {
    'a.weight': { dtype: 'F8_E5M2', shape: [1, 2], data: Uint8Array.of(0x3c, 0x40) },
    'a.weight_scale_inv': { dtype: 'F32', shape: [1, 1], data: Float32Array.of(2) },
  } as Parameters<typeof writeTensors>[1]);
  const { tensors } = JSON.parse(await printed(['stats', path, '--json']));
  expect(tensors).toMatchObject([{ name: 'a.weight', dtype: 'F32', min: 2, max: 4 }]);
  expect(names(await printed(['stats', path, '--json', '--raw']))).toHaveLength(2);
});

it('a pattern without a match, an unknown key and both formats at once are failures', async () => {
  const path = model();
  expect(await call(['stats', path, '--filter', 'x'])).toMatchObject({ code: 1 });
  expect(await call(['stats', path, '--sort', 'size'])).toMatchObject({ code: 2 });
  expect(await call(['stats', path, '--csv', '--json'])).toMatchObject({ code: 2 });
});
