/** Parts of packed tensors, which the worker of the viewer cuts out of whole rows. */
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { isPacked, packedTensor } from '../../viewer/worker/packed.js';
import { openRemote, parse, type SliceIndex } from '../support/api.js';
import { fileBytes } from '../support/make-file.js';

const { signal } = new AbortController();

/** A remote tensor of a packed dtype, and all of its values as a local tensor of F32. */
async function packedAndFloats(dtype: 'F4' | 'F6_E2M3', shape: readonly number[]) {
  const bits = dtype === 'F4' ? 4 : 6;
  const byteLength = shape.reduce((product, size) => product * size, bits) / 8;
  const bytes = Uint8Array.from({ length: byteLength }, (_, i) => i * 37);
  const file = fileBytes([{ name: 'packed', dtype, shape, bytes }]);
  const checkpoint = await openRemote(new Blob([file]));
  const [entry] = await checkpoint.tensors();
  if (entry === undefined) throw new Error('there is no tensor');
  const floats = new Uint8Array(parse(file).getTensor('packed').toFloat32().buffer);
  const expected = parse(fileBytes([{ name: 'floats', dtype: 'F32', shape, bytes: floats }]));
  const reads = vi.spyOn(checkpoint, 'getSlice');
  const tensor = packedTensor(checkpoint, entry, signal);
  return { tensor, expected: expected.getTensor('floats'), reads };
}

/** An index of a dimension. */
function indexOf(size: number): fc.Arbitrary<SliceIndex> {
  const at = fc.integer({ min: 0, max: size - 1 });
  const range = fc.tuple(at, fc.integer({ min: 1, max: size }), fc.integer({ min: 1, max: 3 }));
  const reversed = at.map((start): SliceIndex => [start, null, -1]);
  return fc.oneof(at, range, reversed);
}

it.each(['F4', 'F6_E2M3'] as const)('are those of all values of %s', async (dtype) => {
  const shapes = fc.constantFrom([3, 4, 8], [4, 2, 3], [8, 1], [5, 16], [24]);
  const cases = shapes.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      index: fc.tuple(...shape.map(indexOf)),
      length: fc.integer({ min: 0, max: shape.length }),
    }),
  );
  await fc.assert(
    fc.asyncProperty(cases, async ({ shape, index, length }) => {
      const { tensor, expected } = await packedAndFloats(dtype, shape);
      const some = index.slice(0, length);
      const [found, part] = [await tensor.slice(...some), expected.slice(...some)];
      expect([found.shape, found.toFloat32()]).toEqual([part.shape, part.toFloat32()]);
    }),
    { numRuns: 100 },
  );
});

it('are read by the rows that they cover', async () => {
  const { tensor, reads } = await packedAndFloats('F4', [5, 16]);
  await tensor.slice([1, 3], [5, 8]);
  expect(reads.mock.calls).toEqual([['packed', [1, 3], { signal }]]);
  expect(tensor.dtype).toBe('F32');
});

it('are cut out of the whole tensor if rows do not end on a byte', async () => {
  const { tensor, reads } = await packedAndFloats('F4', [4, 3]);
  await tensor.slice([1, 3], [0, 2]);
  expect(reads.mock.calls).toEqual([['packed', { signal }]]);
  // The dtype by which statistics ask for all values at once.
  expect(isPacked(tensor.dtype)).toBe(true);
});
