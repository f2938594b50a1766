import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import type { ViewConstructor } from '../../src/tensor/view-types.js';
import { DTYPES, type Dtype, parse, SafetensorsError, type Tensor } from '../support/api.js';
import { countedBytes, fileBytes } from '../support/make-file.js';
import { textOf } from '../support/source-tree.js';

// Stands in for a missing array of the runtime: only the name counts.
const Float16Array = class Float16Array extends Uint16Array {};

const ARRAYS = [
  ...[Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array],
  ...[Float16Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array],
] as readonly ViewConstructor<ArrayBufferView>[];

const ALL_DTYPES = Object.keys(DTYPES) as Dtype[];

/** The table of docs/internals/dtypes.md: the arrays that `view` takes, by dtype. */
function documented(): Map<string, string[]> {
  const [, table = ''] =
    /\| `view` takes +\|\n([\s\S]*?)\n\n/.exec(textOf('docs/internals/dtypes.md')) ?? [];
  const namesIn = (cell = ''): string[] => Array.from(cell.matchAll(/`(\w+)`/g), ([, n = '']) => n);
  return new Map(
    table.split('\n').flatMap((row) => {
      const [, dtypes, arrays] = row.split('|');
      return namesIn(dtypes).map((dtype) => [dtype, namesIn(arrays)] as const);
    }),
  );
}

function tensorOf(dtype: Dtype, padding = 0): Tensor {
  return parse(fileBytes([{ name: 't', dtype, shape: [4, 16] }], { padding })).getTensor('t');
}

function bytesOf(view: ArrayBufferView): number[] {
  return [...new Uint8Array(view.buffer, view.byteOffset, view.byteLength)];
}

function refused(view: () => unknown): unknown {
  try {
    return view();
  } catch (error) {
    return error instanceof SafetensorsError && error.code;
  }
}

const table = documented();

test('the documented table has every dtype once', () => {
  expect([...table.keys()].toSorted()).toEqual(ALL_DTYPES.toSorted());
});

describe.each(ALL_DTYPES)('%s', (dtype) => {
  const tensor = tensorOf(dtype);
  const bytes = [...countedBytes(tensor.byteLength)];

  test.each(ARRAYS.map((type) => [type.name, type] as const))('%s', (name, type) => {
    if (table.get(dtype)?.includes(name)) {
      const view = tensor.view(type);
      expect(view).toBeInstanceOf(type);
      expect(bytesOf(view)).toEqual(bytes);
      expect(bytesOf(tensorOf(dtype, 1).view(type))).toEqual(bytes);
    } else {
      expect(refused(() => tensor.view(type))).toBe('SAFETENSORS_DTYPE_MISMATCH');
      expect(refused(() => tensor.view(type, { reinterpret: false }))).toBe(
        'SAFETENSORS_DTYPE_MISMATCH',
      );
    }
    const view = tensor.view(type, { reinterpret: true });
    expect(view).toBeInstanceOf(type);
    expect(bytesOf(view)).toEqual(bytes);
  });

  test('data is one of them', () => {
    expect(table.get(dtype)).toContain(DTYPES[dtype].data.name);
  });
});

test('a refusal names the tensor and says what to use', () => {
  expect(() => tensorOf('BF16').view(Float32Array)).toThrow(
    'tensor "t": expected Uint16Array or Int16Array for elements of BF16, found ' +
      'Float32Array; toFloat32() gives values, and { reinterpret: true } views the bits as any type',
  );
});

test('arrays of other realms, and classes that extend one', () => {
  const [bf16, f32] = [tensorOf('BF16'), tensorOf('F32')];
  const Foreign = runInNewContext('Float32Array') as typeof Float32Array;
  expect(f32.view(Foreign)).toBeInstanceOf(Foreign);
  expect(refused(() => bf16.view(Foreign))).toBe('SAFETENSORS_DTYPE_MISMATCH');
  const Weights = runInNewContext('class Weights extends Float32Array {}; Weights');
  class Vector extends Float32Array {}
  for (const Subclass of [Vector, Weights as typeof Vector]) {
    expect(f32.view(Subclass)).toBeInstanceOf(Subclass);
    expect(refused(() => bf16.view(Subclass))).toBe('SAFETENSORS_DTYPE_MISMATCH');
  }
});

test('a DataView with a length of elements, as in Bun', () => {
  const facts = { name: { value: 'DataView' }, BYTES_PER_ELEMENT: { value: 1 } };
  const type = Object.defineProperties(class {}, facts);
  expect(() => tensorOf('U8').view(type as never, { reinterpret: true })).toThrow(
    expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
  );
});

test('what is no typed array at all', () => {
  const tensor = tensorOf('U8');
  for (const type of [DataView, Buffer, Array, Uint8Array.of(1), 'Uint8Array', null, undefined]) {
    for (const options of [{}, { reinterpret: true }]) {
      expect(() => tensor.view(type as never, options)).toThrow(
        expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
      );
    }
  }
  expect(() => tensor.view(Buffer as never)).toThrow('tensor.byteOffset');
  expect(() => tensor.view(Uint8Array, { reinterpret: 1 as never })).toThrow(TypeError);
  expect(() => tensor.view(Uint8Array, null as never)).toThrow(TypeError);
  class Pairs extends Uint16Array {
    static override readonly BYTES_PER_ELEMENT = 3 as 2;
  }
  expect(() => tensor.view(Pairs, { reinterpret: true })).toThrow(RangeError);
});
