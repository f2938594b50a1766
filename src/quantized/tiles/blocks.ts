/** Decodes weights of GGUF, whose rows are blocks of codes and scales. */

import { matrixOf } from '../../header/tensor-spec.js';
import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import type { BlockLayout, LogicalPlan } from '../plan/logical-plan.js';
import {
  type Decoder,
  type Emit,
  readPart,
  rowIndex,
  type TensorReader,
  tileRows,
  windowRows,
} from './reading.js';

/** Blocks contain their scales, so no other tensor is read. */
export function openBlocks(
  { shape }: LogicalPlan,
  { codes, decode: decodeBlocks }: BlockLayout,
  reader: TensorReader,
): Decoder {
  const depth = shape.length - 1;
  const rows = shape.at(-2) ?? 1;
  const rowByteLength = codes.shape.at(-1) as number;
  const tile = tileRows(matrixOf(shape).columns);
  const window = windowRows(rowByteLength, tile);

  function* decode(first: number, last: number, emit: Emit): Work<void> {
    for (const inMatrix of cut(first, last, rows, 0)) {
      const matrix = Math.floor(inMatrix.begin / rows);
      const start = matrix * rows;
      for (const part of cut(inMatrix.begin - start, inMatrix.end - start, window)) {
        const index = rowIndex(codes.shape, depth, matrix, part.begin, part.end);
        const { bytes } = yield* readPart(reader, codes.name, index);
        for (const { begin, end } of cut(part.begin, part.end, tile)) {
          const from = (begin - part.begin) * rowByteLength;
          const blocks = bytes.subarray(from, from + (end - begin) * rowByteLength);
          emit(start + begin, start + end, (into) => decodeBlocks(blocks, into));
          yield;
        }
      }
    }
  }
  return { decode };
}
