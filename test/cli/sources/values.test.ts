/** Windows: how tensors are cut so that their values take little memory. */
import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { valueWindows } from '../../../src/cli/sources/values.js';
import { type Dtype, parse, serialize, type Tensor } from '../../../src/index.js';

const MOST = 2 ** 22;

function tensorOf(dtype: Dtype, shape: readonly number[], byteLength: number): Tensor {
  const data = Uint8Array.from({ length: byteLength }, (_, i) => i % 251);
  return parse(serialize({ t: { dtype, shape, data } })).getTensor('t');
}

describe('windows of tensors', () => {
  it.each([[[0, 4]], [[]], [[MOST + 5]], [[1, MOST + 5]], [[2, 1, MOST + 1]], [[3, 5, 2 ** 20]]])(
    'of %j follow each other, and none is large',
    (shape) => {
      const count = shape.reduce((product, length) => product * length, 1);
      const tensor = tensorOf('U8', shape, count);
      const windows = Array.from(valueWindows(tensor), ([window]) => window);
      for (const { elementCount } of windows) expect(elementCount).toBeLessThanOrEqual(MOST);
      const bytes = Buffer.concat(windows.map((window) => window.bytes));
      expect(Buffer.compare(bytes, tensor.bytes)).toBe(0);
    },
  );

  it('are cut alike, or not at all where elements begin inside of bytes', () => {
    const shape = [1, MOST + 8];
    const bytes = tensorOf('U8', shape, MOST + 8);
    const shorts = tensorOf('BF16', shape, 2 * (MOST + 8));
    for (const [a, b] of valueWindows(bytes, shorts)) expect(a.shape).toEqual(b.shape);
    const packed = tensorOf('F4', shape, (MOST + 8) / 2);
    expect([...valueWindows(bytes, packed)]).toEqual([[bytes, packed]]);
  });
});
