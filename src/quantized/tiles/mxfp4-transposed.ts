/** Decodes MXFP4 of gpt-oss, expert by expert: the last two axes of each are exchanged. */

import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { decodeExchanged, type Expert } from '../kernels/transpose.js';
import type { ExchangedLayout, LogicalPlan } from '../plan/logical-plan.js';
import { type Decoder, type Emit, readPart, type TensorReader, tileRows } from './reading.js';
import { rejectNaNExponents, wordsOf } from './scales.js';

/** Inputs that share a scale. */
const GROUP_LENGTH = 32;

/** Reads the scales. The expert that was read last is kept: rows come one after the other. */
export function* openExchanged(
  plan: LogicalPlan,
  { codes, scales }: ExchangedLayout,
  reader: TensorReader,
): Work<Decoder> {
  const exponents = yield* readPart(reader, scales.name);
  const [, outputs = 0, groups = 0] = codes.shape;
  const inputs = groups * GROUP_LENGTH;
  let kept: { readonly number: number; readonly expert: Expert } | undefined;

  function* readExpert(number: number): Work<Expert> {
    const { bytes } = yield* readPart(reader, codes.name, [number]);
    const count = outputs * groups;
    const own = exponents.bytes.subarray(number * count, (number + 1) * count);
    rejectNaNExponents(plan.name, scales.name, own, number * count, groups);
    return { words: wordsOf(bytes), exponents: own, outputs, groups };
  }

  function* decode(first: number, last: number, emit: Emit): Work<void> {
    // Whole groups, whose numbers lie in the same bytes.
    const tile = Math.ceil(tileRows(outputs) / GROUP_LENGTH) * GROUP_LENGTH;
    for (const part of cut(first, last, inputs, 0)) {
      const number = Math.floor(part.begin / inputs);
      const start = number * inputs;
      const expert = kept?.number === number ? kept.expert : yield* readExpert(number);
      kept = { number, expert };
      for (const { begin, end } of cut(part.begin, part.end, tile, start)) {
        emit(begin, end, (into) => decodeExchanged(expert, begin - start, end - start, into));
        yield;
      }
    }
  }
  return { decode };
}
