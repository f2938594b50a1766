import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import type { CastTarget } from '../../../src/tensor/float32/cast.js';
import { type CastSource, castInTypeScript } from '../../../src/tensor/float32/cast.js';
import {
  convert,
  loadFile,
  SelectionError,
  safeOpen,
  saveCheckpoint,
  saveFile,
  type TensorInput,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };

/** More than two pieces of a write. */
const LARGE = 5_000_011;

const values = Float32Array.from({ length: 1003 }, (_, i) => (i === 500 ? 70_000 : i / 7));
const large = Float32Array.from({ length: LARGE }, (_, i) => Math.sin(i) * 1000);
const bits = Uint16Array.from({ length: 77 }, (_, i) => 0x3f00 + i * 11);

const TENSORS: Record<string, TensorInput> = {
  'a.double': { dtype: 'F64', shape: [1003], data: Float64Array.from(values) },
  'a.float': { dtype: 'F32', shape: [17, 59], data: values },
  'a.large': { dtype: 'F32', shape: [LARGE], data: large },
  'b.half': { dtype: 'F16', shape: [7, 11], data: bits },
  'b.brain': { dtype: 'BF16', shape: [7, 11], data: bits },
  'b.ids': { dtype: 'I64', shape: [3], data: BigInt64Array.of(1n, -2n, 3n) },
  'b.packed': { dtype: 'F8_E4M3', shape: [3], data: Uint8Array.of(1, 2, 3) },
  'b.mask': { dtype: 'BOOL', shape: [], data: Uint8Array.of(1) },
  'b.none': { dtype: 'F32', shape: [0, 4], data: new Float32Array(0) },
};

let source = '';
let target = '';
beforeEach(async () => {
  source = temporaryPath('source');
  target = temporaryPath('target');
  const metadata = { 'a.tied': 'a.float', note: 'a.float is tied' };
  await saveCheckpoint(source, TENSORS, { ...saving, maxShardSize: 200, metadata });
});

/** The bytes of a tensor of the source, cast. */
function castOf(name: string, to: CastTarget): Uint8Array {
  const { dtype, bytes, elementCount } = loadFile(source).get(name) ?? {};
  if (bytes === undefined || dtype === to) return bytes ?? new Uint8Array(0);
  const width = { F32: 4, F16: 2, BF16: 2, F8_E4M3: 1, F8_E5M2: 1 }[to];
  const output = new Uint8Array((elementCount as number) * width);
  castInTypeScript(dtype as CastSource, to, bytes, output);
  return output;
}

it.each(['BF16', 'F16', 'F8_E4M3', 'F8_E5M2', 'F32'] as const)(
  'casts to %s what can be cast, and nothing else',
  async (to) => {
    const { cast, overflowed, index } = await convert(source, target, {
      ...fast,
      dtype: to,
      maxShardSize: 4_000_000,
    });
    const floats = ['a.double', 'a.float', 'a.large', 'b.half', 'b.brain', 'b.none'];
    const isSame = (name: string): boolean => (TENSORS[name] as TensorInput).dtype === to;
    expect([...cast].sort()).toEqual(floats.filter((name) => !isSame(name)).sort());
    expect(index).not.toBeNull();
    const tensors = loadFile(target);
    expect([...tensors.keys()].sort()).toEqual(Object.keys(TENSORS).sort());
    for (const [name, tensor] of tensors) {
      const isFloat = floats.includes(name);
      const { dtype, shape } = TENSORS[name] as TensorInput;
      expect([name, tensor.dtype, tensor.shape]).toEqual([name, isFloat ? to : dtype, shape]);
      const expected = isFloat ? castOf(name, to) : loadFile(source).get(name)?.bytes;
      expect(Buffer.compare(tensor.bytes, expected as Uint8Array)).toBe(0);
    }
    if (to === 'F16') {
      expect([...overflowed].sort()).toEqual([
        ['a.double', 1],
        ['a.float', 1],
      ]);
    }
    if (to === 'BF16') expect(overflowed.size).toBe(0);
    using checkpoint = safeOpen(target);
    expect((await checkpoint.verify()).problems).toEqual([]);
  },
);

it('selects, renames and casts by tensor, and takes aliases along', async () => {
  const { cast, files } = await convert(source, target, {
    ...fast,
    names: (name) => !name.startsWith('b.'),
    rename: (name) => (name === 'a.float' ? 'matrix' : name),
    dtype: (_, { dtype, shape }) => {
      if (shape.length === 2) return 'BF16';
      return dtype === 'F64' ? 'F32' : undefined;
    },
  });
  expect([cast, files]).toEqual([['a.double', 'matrix'], ['model.safetensors']]);
  using checkpoint = safeOpen(target);
  expect(checkpoint.keys()).toEqual(['a.double', 'a.large', 'matrix']);
  expect(Object.fromEntries(checkpoint.metadata ?? [])).toEqual({
    format: 'pt',
    'a.tied': 'matrix',
    note: 'a.float is tied',
  });
  expect(checkpoint.getTensor('a.tied').dtype).toBe('BF16');
});

it('writes what saveFile writes of the same tensors', async () => {
  await convert(source, target, {
    ...fast,
    names: ['a.tied', 'b.ids'],
    rename: { 'b.ids': 'z', 'a.tied': 'tied' },
    dtype: 'F16',
  });
  const path = temporaryPath('saved.safetensors');
  const tensors: Record<string, TensorInput> = {
    'a.float': { dtype: 'F16', shape: [17, 59], data: castOf('a.float', 'F16') },
    z: TENSORS['b.ids'] as TensorInput,
  };
  const metadata = { format: 'pt', tied: 'a.float', note: 'a.float is tied' };
  await saveFile(path, tensors, { ...saving, metadata });
  expect(readFileSync(join(target, 'model.safetensors')).equals(readFileSync(path))).toBe(true);
});

it('casts a folder in place', async () => {
  const expected = castOf('a.large', 'BF16');
  const { deleted } = await convert(source, source, { ...fast, dtype: 'BF16' });
  expect(deleted.length).toBeGreaterThan(3);
  expect(Buffer.compare(loadFile(source).get('a.large')?.bytes ?? expected, expected)).toBe(0);
});

it('leaves the tensors as they are without any of the options', async () => {
  const { cast, overflowed } = await convert(source, target, { ...fast, names: undefined });
  expect([cast, overflowed.size]).toEqual([[], 0]);
});

it('reports all problems before anything is written', async () => {
  const error = await convert(source, target, {
    ...fast,
    rename: (name) => (name === 'b.ids' ? name : 'same'),
    dtype: (name) => (name === 'b.ids' ? 'BF16' : undefined),
  }).catch((reason) => reason);
  expect(error).toBeInstanceOf(SelectionError);
  expect((error as SelectionError).errors).toHaveLength(8);
  expect(existsSync(target) ? readdirSync(target) : []).toEqual([]);

  const calls = [
    [{ names: ['a.flaot'] }, /model.safetensors.index.json: tensor "a.flaot": .*"a.float"/],
    [{ names: [] }, /names must be a choice of at least one tensor/],
    [{ dtype: 'I8' }, /dtype must be one of/],
    [{ dtype: () => true }, /the result of dtype for "[^"]+" must be one of BOOL, /],
  ] as const;
  for (const [options, message] of calls) {
    const call = convert(source, target, { ...fast, ...options } as never);
    await expect(call).rejects.toThrow(message);
  }
});

it('counts the parameters of what is left anew, as a number where it was one', async () => {
  const whole = { ...saving, maxShardSize: 200, metadata: { total_parameters: '5002180' } };
  await saveCheckpoint(source, TENSORS, whole);
  const names = ['b.half', 'b.brain', 'a.float'];
  const counted = 7 * 11 + 7 * 11 + 1003;
  await convert(source, target, { ...fast, names });
  expect(safeOpen(target).metadata?.get('total_parameters')).toBe(String(counted));
  const indexPath = join(source, 'model.safetensors.index.json');
  const index = JSON.parse(readFileSync(indexPath, 'utf8'));
  index.metadata.total_parameters = 5_002_180;
  writeFileSync(indexPath, JSON.stringify(index));
  await convert(source, target, { ...fast, names, maxShardSize: 200 });
  const { metadata } = JSON.parse(
    readFileSync(join(target, 'model.safetensors.index.json'), 'utf8'),
  );
  expect(metadata.total_parameters).toBe(counted);
  // Of the whole model it is what it was: tied tensors count once there.
  await convert(source, target, { ...fast, dtype: 'BF16' });
  expect(safeOpen(target).metadata?.get('total_parameters')).toBe('5002180');
});
