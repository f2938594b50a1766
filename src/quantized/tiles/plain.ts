/** Tensors that are not quantized, in the same tiles. */

import { matrixOf, tensorByteLength } from '../../header/tensor-spec.js';
import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import type { StoredTensor } from '../plan/logical-plan.js';
import {
  type Decoder,
  type Emit,
  readPart,
  rowIndex,
  type TensorReader,
  tileRows,
  windowRows,
} from './reading.js';

/** Gives the rows of a stored tensor as its own numbers. */
export function plainDecoder(stored: StoredTensor, reader: TensorReader): Decoder {
  const { name, shape } = stored;
  const { rows: total, columns } = matrixOf(shape);
  const rowsOfMatrix = shape.at(-2) ?? 1;
  const rowByteLength = tensorByteLength(stored) / Math.max(total, 1);
  function* decode(first: number, last: number, emit: Emit): Work<void> {
    const window = windowRows(rowByteLength, tileRows(columns));
    for (const inMatrix of cut(first, last, Math.max(rowsOfMatrix, 1), 0)) {
      const matrix = Math.floor(inMatrix.begin / rowsOfMatrix);
      const start = matrix * rowsOfMatrix;
      for (const { begin, end } of cut(inMatrix.begin - start, inMatrix.end - start, window)) {
        const index = rowIndex(shape, shape.length - 1, matrix, begin, end);
        const tensor = yield* readPart(reader, name, index);
        emit(start + begin, start + end, (into) => tensor.toFloat32({ into }));
        yield;
      }
    }
  }
  return { decode };
}
