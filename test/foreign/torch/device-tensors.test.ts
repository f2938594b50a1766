/** Tensors of other devices, which torch saves as NumPy arrays in the pickle. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convert, loadFile, openTorch, scanPickle } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const fixture = (name: string): string =>
  join(import.meta.dirname, '../../fixtures/torch-devices', name);

const placeholder = { unknownGlobals: 'placeholder' } as const;

const VALUES = {
  bfloat16: ['BF16', [2, 3], [0, 1, 2, 3, 4, 5]],
  rounded: ['BF16', [5], [1, 1.015625, -0, Number.NaN, Number.POSITIVE_INFINITY]],
  columns: ['F32', [2, 3], [0, 1, 2, 3, 4, 5]],
  scalar: ['I64', [], [7n]],
  empty: ['F16', [0, 3], []],
  flags: ['BOOL', [2], [1, 0]],
};

type Values = Record<string, readonly [string, readonly number[], readonly unknown[]]>;

function valuesOf(
  tensors: Iterable<
    readonly [string, ReturnType<typeof loadFile> extends Map<string, infer T> ? T : never]
  >,
): Values {
  return Object.fromEntries(
    Array.from(tensors, ([name, tensor]) => {
      const isFloat = /^(?:F|BF)/.test(tensor.dtype);
      const values = isFloat ? tensor.toFloat32() : tensor.data;
      return [name, [tensor.dtype, [...tensor.shape], Array.from(values as Iterable<unknown>)]];
    }),
  );
}

describe.each(['protocol2.pt', 'protocol5.pt', 'legacy.pt'])('of %s', (name) => {
  it('are read with their dtypes', async () => {
    using checkpoint = await openTorch(fixture(name), placeholder);
    expect(checkpoint.problems).toEqual([]);
    expect(valuesOf(checkpoint)).toEqual(VALUES);
  });

  it('are converted', async () => {
    const target = temporaryPath('converted');
    await convert(fixture(name), target, placeholder);
    expect(valuesOf(loadFile(join(target, 'model.safetensors')))).toEqual(VALUES);
  });

  it('are rejected without placeholders, with advice', async () => {
    await expect(openTorch(fixture(name))).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_FORBIDDEN_GLOBAL' }),
    );
    expect((await scanPickle(fixture(name))).verdict).not.toBe('safe');
  });

  it('are read in slices', async () => {
    using checkpoint = await openTorch(fixture(name), placeholder);
    expect([...checkpoint.getSlice('bfloat16', 1, [1, 3]).toFloat32()]).toEqual([4, 5]);
    const pieces = [...checkpoint.getTensor('bfloat16').chunks({ maxByteLength: 4 })];
    expect(Buffer.concat(pieces)).toEqual(Buffer.from(checkpoint.getTensor('bfloat16').bytes));
  });
});

it('next to other tensors', async () => {
  using checkpoint = await openTorch(fixture('float32.pt'), placeholder);
  expect(valuesOf(checkpoint)).toEqual({
    v: ['F32', [2], [0, 1]],
    w: ['F32', [2, 2], [0, 1, 2, 3]],
  });
});

it('older versions of torch call the function _rebuild_xla_tensor', async () => {
  const bytes = readFileSync(fixture('legacy.pt'), 'latin1');
  const path = temporaryPath('old.pt');
  const name = 'torch._utils\n_rebuild_device_tensor_from_numpy\n';
  expect(bytes).toContain(name);
  writeFileSync(path, bytes.replace(name, 'torch._utils\n_rebuild_xla_tensor\n'), 'latin1');
  using checkpoint = await openTorch(path, placeholder);
  expect(valuesOf(checkpoint)).toEqual(VALUES);
});

it('arrays that torch cannot read, or would cast, are problems', async () => {
  using checkpoint = await openTorch(fixture('rejected.pt'), placeholder);
  expect(checkpoint.keys()).toEqual(['plain']);
  const unknown = 'found a tensor of another device, as an unknown NumPy array';
  expect(checkpoint.problems.map(({ tensor, message }) => [tensor, message])).toEqual([
    ['cast', expect.stringContaining('found a tensor of int32 as a NumPy array of float32')],
    ['big_endian', expect.stringContaining(unknown)],
    ['objects', expect.stringContaining(unknown)],
    ['records', expect.stringContaining(unknown)],
    ['subclass', expect.stringContaining(unknown)],
    ['no_array', expect.stringContaining(unknown)],
  ]);
});
