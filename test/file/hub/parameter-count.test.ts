import { describe, expect, it } from 'vitest';
import { declaredParameters, parametersByDtype } from '../../../src/file/hub/parameter-count.js';
import { quantizationOf } from '../../../src/file/hub/quantization.js';
import type { Dtype } from '../../../src/header/dtype.js';
import { parseHeader } from '../../../src/header/header.js';
import { runSync } from '../../../src/work/work.js';
import { type Entry, fileBytes } from '../../support/make-file.js';

function counts(entries: readonly Entry[], config?: unknown): Map<Dtype, number> {
  const file = fileBytes(entries);
  const length = new DataView(file.buffer).getUint32(0, true);
  const header = parseHeader(file.slice(8, 8 + length), file.length);
  return runSync(parametersByDtype([{ header }], null, quantizationOf(config)));
}

describe('parametersByDtype', () => {
  it('leaves out dtypes whose tensors are no parameters, but not those without elements', () => {
    const entries: Entry[] = [
      { name: 'a.weight', dtype: 'F16', shape: [2, 3] },
      { name: 'b.weight', dtype: 'F16', shape: [4] },
      { name: 'empty', dtype: 'F32', shape: [0, 5] },
      { name: 'scalar', dtype: 'I64', shape: [] },
      { name: 'exponents', dtype: 'F8_E8M0', shape: [8] },
      { name: 'a.weight_scale', dtype: 'BF16', shape: [2] },
    ];
    const plain = new Map([
      ['F16', 10],
      ['F32', 0],
      ['BF16', 2],
    ]);
    expect(counts(entries)).toEqual(plain);
    plain.delete('BF16');
    expect(counts(entries, { quantization_config: { quant_method: 'fp8' } })).toEqual(plain);
  });

  it('counts packed values one by one', () => {
    const entries: Entry[] = [{ name: 'm.qweight', dtype: 'I32', shape: [4, 8] }];
    const config = { quantization_config: { quant_method: 'gptq', bits: 4 } };
    expect(counts(entries, config)).toEqual(new Map([['I32', 256]]));
  });
});

describe('declaredParameters', () => {
  it.each([
    ['12', 12],
    ['12.9e3', 12],
    [7.5, 7.5],
    ['200', 100],
    [0, 0],
    ['many', null],
    [-1, null],
    [Infinity, null],
    [undefined, null],
    [null, null],
    [true, null],
  ])('takes %s as %s of 100', (value, expected) => {
    expect(declaredParameters(value, 100)).toBe(expected);
  });
});
