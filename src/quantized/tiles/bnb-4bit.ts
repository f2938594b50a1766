/** Decodes weights of bitsandbytes in 4 bits, whose blocks run over rows. */

import { DTYPES } from '../../header/dtype.js';
import { matrixOf, tensorByteLength } from '../../header/tensor-spec.js';
import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { decodeFlat, decodeNested } from '../kernels/bnb-4bit.js';
import type { FlatLayout, LogicalPlan } from '../plan/logical-plan.js';
import {
  type Decoder,
  type Emit,
  readPart,
  type TensorReader,
  tileRows,
  windowRows,
} from './reading.js';
import { decodeItems, rejectNaN } from './scales.js';

/** Reads what stands next to the codes. */
export function* openFlat(
  plan: LogicalPlan,
  layout: FlatLayout,
  reader: TensorReader,
): Work<Decoder> {
  const { map, absmax, nested, blockLength } = layout;
  const wanted = [map, absmax, ...(nested === null ? [] : [nested.absmax, nested.map])];
  const tensors = yield* reader.read(wanted.map(({ name }) => ({ name, index: null })));
  const [codeBook, scale, nestedScale, nestedMap] = tensors as [Tensor, Tensor, ...Tensor[]];
  const { columns } = matrixOf(plan.shape);
  const values = codeBook.toFloat32();
  rejectNaN(plan.name, codeBook.name, values, 0, values.length);
  const [nestedValues, nestedScales] = [nestedMap, nestedScale].map((tensor) =>
    tensor?.toFloat32(),
  );

  /** The scales of the blocks [first, first + into.length). */
  const scales = (first: number, into: Float32Array): void => {
    if (nested === null || nestedValues === undefined || nestedScales === undefined) {
      decodeItems(scale, 'F32', first, into);
    } else {
      const codes = scale.bytes.subarray(first, first + into.length);
      const part = { first, blockLength: nested.blockLength };
      decodeNested(codes, nestedValues, part, nestedScales, nested.offset, into);
    }
    rejectNaN(plan.name, scale.name, into, first, 1);
  };

  function* decode(first: number, last: number, emit: Emit): Work<void> {
    const tile = tileRows(columns);
    for (const window of cut(first, last, windowRows(columns / 2, tile))) {
      const [begin, end] = [window.begin * columns, window.end * columns];
      const { bytes, position } = yield* readCodes(
        reader,
        layout,
        Math.floor(begin / 2),
        Math.ceil(end / 2),
      );
      for (const rows of cut(window.begin, window.end, tile)) {
        const at = rows.begin * columns;
        const own = bytes.subarray(Math.floor(at / 2) - position);
        emit(rows.begin, rows.end, (into) => {
          const block = Math.floor(at / blockLength);
          const count = Math.ceil((at + into.length) / blockLength) - block;
          const factors = new Float32Array(count);
          scales(block, factors);
          decodeFlat(own, values, { first: at, blockLength }, factors, into);
        });
        yield;
      }
    }
  }
  return { decode };
}

/** The bytes [begin, end) of the codes, or more; `position` is that of the first. */
function* readCodes(
  reader: TensorReader,
  { codes }: FlatLayout,
  begin: number,
  end: number,
): Work<{ bytes: Uint8Array; position: number }> {
  const { name, dtype, shape } = codes;
  const width = DTYPES[dtype].bits / 8;
  const isColumn = (shape[0] ?? 0) * width === tensorByteLength(codes);
  if (!isColumn) {
    const { bytes } = yield* readPart(reader, name);
    return { bytes, position: 0 };
  }
  const first = Math.floor(begin / width);
  const { bytes } = yield* readPart(reader, name, [[first, Math.ceil(end / width)]]);
  return { bytes, position: first * width };
}
