/**
 * Steps 7 and 8 of reading a header: the tensors lie end to end from offset 0, each takes the bytes
 * that its shape and dtype need, and the file ends with the last one.
 */

import { type ErrorContext, FormatError, type FormatErrorCode } from '../errors/errors.js';
import type { Work } from '../work/work.js';
import { ITEMS_PER_YIELD } from '../work/yielding.js';
import { DTYPE_NAMES, DTYPES, type Dtype } from './dtype.js';
import { CLOSE_BRACKET, type JsonReader } from './json/reader.js';
import { decodeString } from './json/strings.js';
import { DTYPE_MASK, SUPERSEDED, type TensorColumns, UNPROVEN } from './tensor-columns.js';
import { MAX_UINT64 } from './tensor-spec.js';

/** A number of 64 bits is at most 2^53 - 1 when its upper half is below this. */
const UNSAFE_HIGH = 2 ** 21;

/**
 * Checks the tensors, which are sorted by their offsets; throws the rule that the first bad tensor, or the length of
 * the data, violates. All arithmetic is exact up to 2^64. Returns the first entry with a dimension above 2^53 - 1,
 * which a JavaScript number cannot hold and the caller refuses last; else -1.
 */
export function* checkTensors(
  reader: JsonReader,
  columns: TensorColumns,
  dataByteLength: number,
  context: ErrorContext,
): Work<number> {
  const { beginHigh, beginLow, endHigh, endLow, kind, nameAt, shapeAt } = columns;
  const offsetsOf = (entry: number): string => {
    const begin = uint64Of(beginHigh[entry] as number, beginLow[entry] as number);
    return `[${begin}, ${uint64Of(endHigh[entry] as number, endLow[entry] as number)}]`;
  };
  const fail = (entry: number, code: FormatErrorCode, message: string): never => {
    const tensor = decodeString(reader.bytes, nameAt[entry] as number);
    throw new FormatError(code, message, { ...context, tensor });
  };
  const failOverflow = (entry: number, what: string): never => {
    const message = `expected a size below 2^64 bits, but ${what} is larger`;
    return fail(entry, 'SAFETENSORS_VALIDATION_OVERFLOW', message);
  };

  let lastHigh = 0;
  let lastLow = 0;
  let oversized = -1;
  for (let entry = 0; entry < columns.size; entry++) {
    if (entry % ITEMS_PER_YIELD === 0) yield;
    const flags = kind[entry] as number;
    if ((flags & SUPERSEDED) !== 0) continue;
    if (beginHigh[entry] !== lastHigh || beginLow[entry] !== lastLow) {
      fail(
        entry,
        'SAFETENSORS_INVALID_OFFSET',
        `expected to begin where the tensor before it ends, at ${uint64Of(lastHigh, lastLow)}, ` +
          `but data_offsets is ${offsetsOf(entry)}`,
      );
    }
    lastHigh = endHigh[entry] as number;
    lastLow = endLow[entry] as number;
    if ((flags & UNPROVEN) === 0) continue;

    const begin = uint64Of(beginHigh[entry] as number, beginLow[entry] as number);
    const end = uint64Of(lastHigh, lastLow);
    if (end < begin) {
      fail(
        entry,
        'SAFETENSORS_INVALID_OFFSET',
        `expected to end at or after its begin, but data_offsets is ${offsetsOf(entry)}`,
      );
    }
    const { elements, isCountable } = multiplyDimensions(reader, shapeAt[entry] as number);
    if (!isCountable && oversized === -1) oversized = entry;
    if (elements > MAX_UINT64) failOverflow(entry, 'the product of its dimensions');
    const dtype = DTYPE_NAMES[flags & DTYPE_MASK] as Dtype;
    const bits = elements * BigInt(DTYPES[dtype].bits);
    if (bits > MAX_UINT64) failOverflow(entry, `${elements} elements of ${dtype}`);
    if (bits % 8n !== 0n) {
      fail(
        entry,
        'SAFETENSORS_MISALIGNED_SLICE',
        `expected whole bytes, but ${elements} elements of ${dtype} take ${bits} bits`,
      );
    }
    if (end - begin !== bits / 8n) {
      fail(
        entry,
        'SAFETENSORS_TENSOR_INVALID_INFO',
        `expected ${bits / 8n} bytes for ${elements} elements of ${dtype}, ` +
          `but data_offsets is ${offsetsOf(entry)}, ${end - begin} bytes`,
      );
    }
  }

  // A file has fewer bytes than 2^53, and rounding makes no larger number equal to its length.
  if (lastHigh * 2 ** 32 + lastLow !== dataByteLength) {
    const expected = uint64Of(lastHigh, lastLow);
    throw new FormatError(
      'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
      `expected ${expected} bytes of tensor data after the header, found ${dataByteLength}` +
        (expected > dataByteLength ? ': the file is incomplete' : ''),
      context,
    );
  }
  return oversized;
}

/**
 * Product of the dimensions of a shape, multiplied from the left as the reference does, up to the
 * first one above 2^64 - 1; and whether all dimensions before that are at most 2^53 - 1.
 */
function multiplyDimensions(
  reader: JsonReader,
  shapeAt: number,
): { elements: bigint; isCountable: boolean } {
  let elements = 1n;
  let isCountable = true;
  reader.at = shapeAt;
  if (!reader.enter(CLOSE_BRACKET)) return { elements, isCountable };
  do {
    const dimension = reader.readUnsigned();
    const high = reader.halves[1] as number;
    if (high >= UNSAFE_HIGH) isCountable = false;
    // Ones, and what follows a zero, change nothing: at most 64 products before an overflow.
    if (dimension === 1 || elements === 0n) continue;
    elements *= uint64Of(high, reader.halves[0] as number);
    if (elements > MAX_UINT64) break;
  } while (reader.hasNext(CLOSE_BRACKET));
  return { elements, isCountable };
}

function uint64Of(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
