/** Every recorded checkpoint gives its tensors or is refused, and nothing in it runs. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { type ExpectedTensor, type Fixture, fixturePath, fixtures } from './fixtures.js';

const checkpoints = fixtures.filter(({ family }) => family !== 'numpy');

function keyOf(key: ExpectedTensor['path'][number]): string {
  return typeof key === 'object' ? key.key : `${key}`;
}

function nameOf({ path }: ExpectedTensor): string {
  return path.map(keyOf).join('.');
}

/** safetensors counts the values of packed dtypes, torch the bytes. */
function inSafetensors({ dtype, shape }: ExpectedTensor): { dtype: string; shape: number[] } {
  if (dtype !== 'torch:float4_e2m1fn_x2') return { dtype, shape: [...shape] };
  return { dtype: 'F4', shape: [...shape.slice(0, -1), 2 * (shape.at(-1) as number)] };
}

type Checkpoint = ReturnType<typeof openTorchCheckpoint>;

function expectTensors(checkpoint: Checkpoint, tensors: readonly ExpectedTensor[]): void {
  expect(checkpoint.keys()).toHaveLength(tensors.length);
  for (const expected of tensors) {
    const tensor = checkpoint.getTensor(nameOf(expected));
    expect({ dtype: tensor.dtype, shape: [...tensor.shape] }).toEqual(inSafetensors(expected));
    expect(tensor.byteLength).toBe(expected.nbytes);
    expect(createHash('sha256').update(tensor.bytes).digest('hex')).toBe(expected.sha256);
  }
}

/** Opens all of a checkpoint and takes the bytes of its tensors. */
function read({ file }: Fixture, storage: 'mmap' | 'read'): Checkpoint {
  const checkpoint = openTorchCheckpoint(fixturePath(file), { root: [], storage });
  for (const [, tensor] of checkpoint) tensor.bytes;
  return checkpoint;
}

function refusal(fixture: Fixture): unknown {
  try {
    read(fixture, 'mmap');
  } catch (error) {
    return error;
  }
  return undefined;
}

afterAll(() => {
  expect(existsSync('PWNED')).toBe(false);
  expect(readdirSync(fixturePath('.'))).not.toContain('PWNED');
});

describe.each(['mmap', 'read'] as const)('checkpoints with storage %s', (storage) => {
  it.each(checkpoints.filter((fixture) => fixture.expect === 'tensors'))(
    'gives the tensors of $id',
    (fixture) => {
      using checkpoint = read(fixture, storage);
      expectTensors(checkpoint, fixture.tensors ?? []);
    },
  );
});

/** As in torch, a storage's checksum is ignored while its bytes are only mapped. */
const MAPPED_ALL_THE_SAME = ['zip-x-crc-storage'];

/** All tensors of these files have kinds that safetensors lacks. */
const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  ['zip-sparse-csr', 'sparse'],
  ['zip-quantized', 'quantized'],
  ['zip-nested', 'nested'],
  ['zip-meta', 'meta'],
]);

it.each(checkpoints.filter(({ id }) => LEFT_OUT.has(id)))('leaves out what $id has', (fixture) => {
  using checkpoint = read(fixture, 'mmap');
  expect(checkpoint.keys()).toEqual([]);
  const [problem, ...others] = checkpoint.problems as readonly FormatError[];
  expect(problem?.message).toContain(LEFT_OUT.get(fixture.id));
  expect(others).toEqual([]);
});

it.each(
  checkpoints.filter(({ expect: outcome, id }) => {
    return outcome === 'refuse' && !MAPPED_ALL_THE_SAME.includes(id) && !LEFT_OUT.has(id);
  }),
)('refuses $id', (fixture) => {
  const error = refusal(fixture);
  expect(error, String(error)).toBeInstanceOf(FormatError);
  expect((error as Error).message).toContain(fixture.file);
});

it.each(checkpoints.filter((fixture) => fixture.expect === 'either'))(
  'gives the right tensors of $id, or none',
  (fixture) => {
    const error = refusal(fixture);
    if (error !== undefined) {
      expect(error, String(error)).toBeInstanceOf(FormatError);
      return;
    }
    using checkpoint = read(fixture, 'mmap');
    expectTensors(checkpoint, fixture.tensors ?? []);
  },
);
