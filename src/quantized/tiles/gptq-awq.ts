/**
 * Decodes weights whose stored columns are rows: GPTQ and AWQ. A few rows need bytes from everywhere in the packed
 * tensor, so it is read once, and kept.
 */

import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { codeAt, unpackBits } from '../kernels/bits.js';
import { subtractAndMultiply, subtractAndMultiplyByGroups } from '../kernels/groups.js';
import { areNibbles, decodeNibbles, shiftedTable } from '../kernels/nibbles.js';
import { AWQ_NIBBLES, transpose, unpackAwq } from '../kernels/transpose.js';
import type { ColumnLayout, LogicalPlan } from '../plan/logical-plan.js';
import { invalid } from '../plan/unsupported.js';
import { type Decoder, type Emit, type TensorReader, tileRows } from './reading.js';
import { decodeItems, rejectNaN, requireGroups, wordsOf } from './scales.js';

/** Rows of a tile are a multiple of a cache line of columns of the packed tensor. */
const LINE_LENGTH = 16;

/** Reads all tensors of the weight. */
export function* openColumns(
  plan: LogicalPlan,
  layout: ColumnLayout,
  reader: TensorReader,
): Work<Decoder> {
  const { name } = plan;
  const [outputs = 0, inputs = 0] = plan.shape;
  const { codes, zeros, scales, columnGroups, groupLength, bits, offset } = layout;
  const wanted = [codes, zeros, scales, ...(columnGroups === null ? [] : [columnGroups])];
  const found = yield* reader.read(wanted.map((tensor) => ({ name: tensor.name, index: null })));
  const [packed, storedZeros, scale, order] = found as [Tensor, Tensor, Tensor, Tensor | undefined];
  const [groupCount = 0] = scales.shape;
  const numbers = new Float32Array(groupCount * outputs);
  decodeItems(scale, scale.dtype, 0, numbers);
  rejectNaN(name, scale.name, numbers, 0, outputs);
  const zeroWords = wordsOf(storedZeros.bytes);
  const zeroNumbers =
    offset === null
      ? zerosOfAwq(zeroWords, numbers.length)
      : zerosOfGptq(name, zeroWords, { bits, outputs, count: numbers.length }, offset);
  const byOutput = (items: Float32Array): Float32Array => {
    const part = { first: 0, last: outputs, rows: groupCount, columns: outputs };
    const into = new Float32Array(items.length);
    transpose(items, part, groupCount, into);
    return into;
  };
  const [ownScales, ownZeros] = [byOutput(numbers), byOutput(zeroNumbers)];
  const groups = order === undefined ? null : requireGroups(name, order, groupCount);
  const regular = groups === null ? groupLength : regularLength(groups);
  const words = wordsOf(packed.bytes);
  const wordsPerRow = (inputs * bits) / 32;
  // A few words more: rows of a power of two bytes would meet in the same places of the cache.
  const stride = wordsPerRow + LINE_LENGTH;

  /** Each output as a row of codes. */
  function unpack(first: number, last: number, into: Float32Array): void {
    if (offset === null) {
      unpackAwq(words, { first, last, rows: inputs, columns: outputs }, into);
      return;
    }
    const rows = wordRows(first, last);
    unpackBits(rows, { bits, perWord: null, wordsPerRow: stride, columns: inputs }, into);
  }

  /** Each output as a row of the words of GPTQ. */
  function wordRows(first: number, last: number): Int32Array {
    const rows = new Int32Array((last - first) * stride);
    transpose(words, { first, last, rows: wordsPerRow, columns: outputs }, stride, rows);
    return rows;
  }

  function fill(first: number, last: number, values: Float32Array): void {
    const [begin, end] = [first * groupCount, last * groupCount];
    const [own, zero] = [ownScales.subarray(begin, end), ownZeros.subarray(begin, end)];
    if (offset !== null && regular !== null && areNibbles(bits, inputs, regular)) {
      const layout = { wordsPerRow: stride, columns: inputs, groupLength: regular };
      decodeNibbles(wordRows(first, last), layout, shiftedTable(own, zero), values);
      return;
    }
    unpack(first, last, values);
    const part = {
      columns: inputs,
      firstRow: 0,
      blockRows: 1,
      blockColumns: regular ?? inputs,
      gridColumns: groupCount,
    };
    if (regular !== null) subtractAndMultiply(values, part, own, zero);
    else subtractAndMultiplyByGroups(values, part, groups as Int32Array, own, zero);
  }

  function* decode(first: number, last: number, emit: Emit): Work<void> {
    const tile = Math.max(LINE_LENGTH, tileRows(inputs) & -LINE_LENGTH);
    for (const { begin, end } of cut(first, last, tile, 0)) {
      emit(begin, end, (into) => fill(begin, end, into));
      yield;
    }
  }
  return { decode };
}

/** The length of groups that follow one another, the usual case; null for any other order. */
function regularLength(groups: Int32Array): number | null {
  const change = groups.findIndex((group) => group !== 0);
  const length = change === -1 ? Math.max(groups.length, 1) : change;
  const isRegular = length > 0 && groups.every((group, i) => group === Math.floor(i / length));
  return isRegular ? length : null;
}

function zerosOfAwq(words: Int32Array, count: number): Float32Array {
  const zeros = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    zeros[i] = ((words[i >>> 3] as number) >>> (4 * (AWQ_NIBBLES[i % 8] as number))) & 15;
  }
  return zeros;
}

/**
 * Zero points of GPTQ. Version 1 stores one less. Its writer subtracts from whole words, with a borrow between fields,
 * so they are added to whole words here, too, but for 3 bits, whose fields cross words. Some writers of symmetric
 * weights store 2^(bits - 1) under the label of version 1: there is nothing to add then.
 */
function zerosOfGptq(
  weight: string,
  words: Int32Array,
  {
    bits,
    outputs,
    count,
  }: { readonly bits: number; readonly outputs: number; readonly count: number },
  offset: NonNullable<ColumnLayout['offset']>,
): Float32Array {
  const wordsPerRow = (outputs * bits) / 32;
  const fieldsOf = (from: Int32Array): Float32Array => {
    const fields = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const first = Math.floor(i / outputs) * wordsPerRow;
      fields[i] = codeAt(from, { first, stride: 1, bits, perWord: null }, i % outputs);
    }
    return fields;
  };
  const stored = fieldsOf(words);
  if (offset.kind === 'as-is') return stored;
  const middle = 2 ** (bits - 1);
  const areAll = (value: number): boolean => stored.every((field) => field === value);
  const mayBeSymmetric = offset.kind === 'by-data' || offset.isSymmetric;
  if (mayBeSymmetric && areAll(middle)) return stored;
  if (offset.kind === 'by-data' && !areAll(middle - 1)) {
    throw invalid(
      weight,
      'without a configuration nothing shows whether the zero points of GPTQ are stored as they are or one less',
    );
  }
  if (32 % bits !== 0) {
    const mask = 2 ** bits - 1;
    return stored.map((field) => (field + 1) & mask);
  }
  const ones = Array.from({ length: 32 / bits }, (_, i) => 2 ** (i * bits)).reduce((a, b) => a + b);
  return fieldsOf(words.map((word) => (word + ones) | 0));
}
