/** Tensors for property tests. */

import fc from 'fast-check';
import type { NewTensorOf } from '../../../src/write/input/tensor-input.js';
import { anyText } from '../../support/any-text.js';
import { DTYPES, type Dtype } from '../../support/api.js';

/** Any dtype of these, any shape and any bytes. */
export function arbitraryTensor(
  dtypes: readonly Dtype[] = Object.keys(DTYPES) as Dtype[],
): fc.Arbitrary<NewTensorOf<Dtype, Uint8Array>> {
  return fc
    .tuple(fc.constantFrom(...dtypes), fc.array(fc.nat(4), { maxLength: 5 }))
    .chain(([dtype, dimensions]) => {
      const { bits } = DTYPES[dtype];
      // Four elements of a packed dtype fill whole bytes.
      const shape = bits < 8 ? [...dimensions, 4] : dimensions;
      const length = (shape.reduce((a, b) => a * b, 1) * bits) / 8;
      const bytes = fc.uint8Array({ minLength: length, maxLength: length });
      return bytes.map((data) => ({ dtype, shape, data }));
    });
}

/** Up to `maxLength` of them by names that differ. */
export function arbitraryTensors<Tensor = NewTensorOf<Dtype, Uint8Array>>(
  maxLength: number,
  tensor: fc.Arbitrary<Tensor>,
  name: fc.Arbitrary<string> = anyText(),
): fc.Arbitrary<[string, Tensor][]> {
  const possible = name.filter((text) => text !== '__metadata__');
  return fc.uniqueArray(fc.tuple(possible, tensor), { selector: ([text]) => text, maxLength });
}
