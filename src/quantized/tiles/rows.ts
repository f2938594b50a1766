/** Decodes weights that are stored row by row with a grid of scales: codes to numbers, then arithmetic in place. */

import type { Dtype } from '../../header/dtype.js';
import { matrixOf, tensorByteLength } from '../../header/tensor-spec.js';
import { toFloat32 } from '../../tensor/float32/kernels.js';
import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { codeAt, unpackBits } from '../kernels/bits.js';
import {
  decodeAndMultiply,
  type GroupPart,
  multiply,
  multiplyAll,
  multiplyAndAdd,
  multiplyColumns,
  subtractAndMultiply,
  subtractAndMultiplyByGroups,
} from '../kernels/groups.js';
import {
  affineTable,
  areNibbles,
  decodeNibbles,
  exchangeNibbles,
  lookUpNibbles,
  shiftedTable,
} from '../kernels/nibbles.js';
import type { LogicalPlan, RowLayout } from '../plan/logical-plan.js';
import { GridItems } from './group-items.js';
import {
  type Decoder,
  type Emit,
  readPart,
  rowIndex,
  type TensorReader,
  tileRows,
  windowRows,
} from './reading.js';
import { isRotated, RowTurner } from './rotated.js';
import { decodeItems, rejectNaN, requireGroups, wordsOf } from './scales.js';

/** What stands next to the codes; each tensor is read once. */
interface Companions {
  readonly scale: GridItems;
  /** One for all matrices, or one each. */
  readonly global: Float32Array | null;
  readonly zero: Tensor | null;
  readonly bias: GridItems | null;
  readonly groups: Int32Array | null;
  readonly columnFactors: Float32Array | null;
  readonly turner: RowTurner | null;
  /** The numbers of packed integers. */
  readonly numbers: Float32Array | null;
}

/** Reads what stands next to the codes. */
export function* openRows(
  plan: LogicalPlan,
  layout: RowLayout,
  reader: TensorReader,
): Work<Decoder> {
  const { scale, order, global, zero, bias, columnGroups, grid, packing } = layout;
  const { columnFactors, rotation } = layout;
  const stored = zero === null || zero.kind === 'constant' ? null : zero.tensor;
  const codeBook =
    packing.kind === 'nibbles' && typeof packing.numbers === 'object' ? packing.numbers : null;
  const wanted = [
    ...[scale.tensor, global?.tensor, stored, bias, columnGroups],
    ...[codeBook, columnFactors, rotation?.rowScale],
  ];
  const tensors = yield* reader.read(
    wanted.flatMap((tensor) => (tensor ? { name: tensor.name, index: null } : [])),
  );
  const found = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const of = (tensor: { readonly name: string } | null | undefined): Tensor | null =>
    (tensor && found.get(tensor.name)) ?? null;
  const itemsOf = (tensor: Tensor | null, dtype: Dtype): GridItems | null =>
    tensor && new GridItems(plan.name, tensor, dtype, grid, order);
  const numbers = numbersOf(plan.name, packing, of(codeBook));
  const companions: Companions = {
    scale: itemsOf(of(scale.tensor), scale.dtype) as GridItems,
    global: listOf(plan.name, of(global?.tensor)),
    zero: of(stored),
    bias: itemsOf(of(bias), bias?.dtype ?? 'F32'),
    groups: groupsOf(plan.name, of(columnGroups), grid.columns),
    columnFactors: listOf(plan.name, of(columnFactors)),
    turner: isRotated(layout)
      ? new RowTurner(plan.name, layout, numbers, of(layout.rotation.rowScale))
      : null,
    numbers,
  };
  return new RowDecoder(plan, layout, reader, companions);
}

/** The numbers of a tensor, which are few. */
function listOf(weight: string, tensor: Tensor | null): Float32Array | null {
  if (tensor === null) return null;
  const values = tensor.toFloat32();
  rejectNaN(weight, tensor.name, values, 0, values.length);
  return values;
}

/** The number of each code of packed integers; null for other codes. */
function numbersOf(
  weight: string,
  packing: RowLayout['packing'],
  codeBook: Tensor | null,
): Float32Array | null {
  if (packing.kind !== 'nibbles') return null;
  if (codeBook !== null) return listOf(weight, codeBook);
  const isSigned = packing.numbers === 'signed';
  return Float32Array.from({ length: 16 }, (_, code) => (isSigned ? (code << 28) >> 28 : code - 8));
}

/**
 * The group of each column; null where the order of columns has no effect. compressed-tensors fills the list with -1
 * when the columns were not reordered; a list for a single group has only zeros.
 */
function groupsOf(weight: string, tensor: Tensor | null, count: number): Int32Array | null {
  if (tensor === null) return null;
  const isUnused = new Int32Array(tensor.bytes.slice().buffer).includes(-1);
  if (isUnused) return null;
  const groups = requireGroups(weight, tensor, Math.max(count, 1));
  return count > 1 ? groups : null;
}

/** A tile of one matrix. */
interface Tile {
  readonly matrix: number;
  /** Rows of the matrix. */
  readonly first: number;
  readonly last: number;
}

class RowDecoder implements Decoder {
  readonly #plan: LogicalPlan;
  readonly #layout: RowLayout;
  readonly #reader: TensorReader;
  readonly #companions: Companions;
  /** Columns as stored: some may be padding. */
  readonly #columns: number;
  /** Columns of the values. */
  readonly #width: number;
  /** Rows of one matrix. */
  readonly #rows: number;
  #scratch: [scales: Float32Array, others: Float32Array] = [
    new Float32Array(0),
    new Float32Array(0),
  ];

  #words = new Int32Array(0);

  constructor(plan: LogicalPlan, layout: RowLayout, reader: TensorReader, companions: Companions) {
    this.#plan = plan;
    this.#layout = layout;
    this.#reader = reader;
    this.#companions = companions;
    this.#width = matrixOf(plan.shape).columns;
    this.#columns = layout.padded?.columns ?? this.#width;
    this.#rows = plan.shape.at(-2) ?? 1;
  }

  *decode(first: number, last: number, emit: Emit): Work<void> {
    const { codes, padded } = this.#layout;
    const { shape } = codes;
    const depth = this.#plan.shape.length - 1;
    const { rows } = matrixOf(this.#plan.shape);
    const total = padded === null ? rows : (rows / this.#rows) * padded.rows;
    const rowByteLength = tensorByteLength(codes) / Math.max(total, 1);
    const tile = tileRows(this.#columns);
    const window = windowRows(rowByteLength, tile);
    for (const inMatrix of cut(first, last, this.#rows, 0)) {
      const matrix = Math.floor(inMatrix.begin / this.#rows);
      const start = matrix * this.#rows;
      for (const part of cut(inMatrix.begin - start, inMatrix.end - start, window)) {
        const index = rowIndex(shape, depth, matrix, part.begin, part.end);
        const { bytes } = yield* readPart(this.#reader, codes.name, index);
        for (const { begin, end } of cut(part.begin, part.end, tile)) {
          const from = (begin - part.begin) * rowByteLength;
          const own = bytes.subarray(from, from + (end - begin) * rowByteLength);
          const rows = { matrix, first: begin, last: end };
          emit(start + begin, start + end, (into) => this.#fill(own, rowByteLength, rows, into));
          yield;
        }
      }
    }
  }

  #fill(bytes: Uint8Array, rowByteLength: number, tile: Tile, into: Float32Array): void {
    const { columnFactors } = this.#companions;
    if (this.#columns === this.#width) {
      this.#decodeRows(bytes, rowByteLength, tile, into);
    } else {
      const rows = new Float32Array((tile.last - tile.first) * this.#columns);
      this.#decodeRows(bytes, rowByteLength, tile, rows);
      for (let from = 0, to = 0; to < into.length; from += this.#columns, to += this.#width) {
        into.set(rows.subarray(from, from + this.#width), to);
      }
    }
    if (columnFactors !== null) multiplyColumns(into, columnFactors);
  }

  /** Decodes whole rows as they are stored. */
  #decodeRows(bytes: Uint8Array, rowByteLength: number, tile: Tile, into: Float32Array): void {
    const { packing, grid } = this.#layout;
    const { turner, numbers } = this.#companions;
    const { part, scales, others } = this.#numbersOf(tile);
    const columns = this.#columns;
    if (turner !== null) {
      turner.fill(bytes, tile, part, scales, into);
      return;
    }
    if (packing.kind === 'elements' || packing.kind === 'e2m1') {
      const isReversed = packing.kind === 'e2m1' && packing.first === 'high';
      const codes = isReversed ? this.#exchanged(bytes) : bytes;
      const dtype = packing.kind === 'e2m1' ? 'F4' : packing.dtype;
      if (this.#isProduct()) {
        decodeAndMultiply(dtype, codes, into, part, scales);
        return;
      }
      toFloat32(dtype, codes, into);
    } else if (packing.kind === 'nibbles') {
      lookUpNibbles(bytes, numbers as Float32Array, into);
    } else {
      const words = wordsOf(bytes);
      const wordsPerRow = rowByteLength / 4;
      const { bias, groups } = this.#companions;
      const groupLength = grid.blockColumns;
      const isSimple = groups === null && grid.blockRows === 1;
      if (isSimple && areNibbles(packing.bits, columns, groupLength)) {
        const table = bias === null ? shiftedTable(scales, others) : affineTable(scales, others);
        decodeNibbles(words, { wordsPerRow, columns, groupLength }, table, into);
        return;
      }
      unpackBits(words, { ...packing, wordsPerRow, columns }, into);
    }
    this.#scale(into, part, scales, others);
  }

  /** Whether each value is a code times its scale, and no more. */
  #isProduct(): boolean {
    const { zero, factor } = this.#layout;
    const { bias, groups } = this.#companions;
    return zero === null && bias === null && groups === null && factor === null;
  }

  /** A copy of whole words with the nibbles of their bytes exchanged; valid until the next one. */
  #exchanged(bytes: Uint8Array): Uint8Array {
    if (this.#words.byteLength < bytes.length) this.#words = new Int32Array(bytes.length / 4);
    const copy = new Uint8Array(this.#words.buffer, 0, bytes.length);
    copy.set(bytes);
    exchangeNibbles(this.#words.subarray(0, bytes.length / 4));
    return copy;
  }

  /** The scales of a tile, and its zero points or biases. */
  #numbersOf(tile: Tile): { part: GroupPart; scales: Float32Array; others: Float32Array } {
    const { grid, zero } = this.#layout;
    const { scale, bias, groups } = this.#companions;
    const gridRow = Math.floor(tile.first / grid.blockRows);
    const gridRows = Math.ceil(tile.last / grid.blockRows) - gridRow;
    const matrix = grid.matrices === 1 ? 0 : tile.matrix;
    const [scales, others] = this.#scratchOf(gridRows * grid.columns);
    scale.fill(matrix, gridRow, scales);
    this.#applyGlobal(scales, tile.matrix);
    if (bias !== null) bias.fill(matrix, gridRow, others);
    else if (zero !== null || groups !== null) this.#zeros(others, matrix, gridRow);
    const part = {
      columns: this.#columns,
      firstRow: tile.first - gridRow * grid.blockRows,
      blockRows: grid.blockRows,
      blockColumns: grid.blockColumns,
      gridColumns: grid.columns,
    };
    return { part, scales, others };
  }

  /** Codes to values, in place. */
  #scale(values: Float32Array, part: GroupPart, scales: Float32Array, others: Float32Array): void {
    const { zero, factor } = this.#layout;
    const { bias, groups } = this.#companions;
    if (bias !== null) multiplyAndAdd(values, part, scales, others);
    else if (groups !== null) subtractAndMultiplyByGroups(values, part, groups, scales, others);
    else if (zero !== null) subtractAndMultiply(values, part, scales, others);
    else multiply(values, part, scales);
    if (factor !== null) multiplyAll(values, factor);
  }

  #applyGlobal(scales: Float32Array, matrix: number): void {
    const { global: all } = this.#companions;
    if (all === null) return;
    const global = all[all.length === 1 ? 0 : matrix] as number;
    if (this.#layout.global?.divides !== true) {
      multiplyAll(scales, global);
      return;
    }
    for (let i = 0; i < scales.length; i++) scales[i] = (scales[i] as number) / global;
  }

  #zeros(into: Float32Array, matrix: number, gridRow: number): void {
    const { zero, packing, grid } = this.#layout;
    const stored = this.#companions.zero;
    if (stored === null) {
      into.fill(zero?.kind === 'constant' ? zero.value : 0);
    } else if (zero?.kind === 'grid') {
      const item = (matrix * grid.rows + gridRow) * grid.columns;
      decodeItems(stored, stored.dtype, item, into);
    } else if (packing.kind === 'bits') {
      const words = wordsOf(stored.bytes);
      const { columns } = grid;
      for (let i = 0; i < into.length; i++) {
        const stream = { ...packing, first: i % columns, stride: columns };
        into[i] = codeAt(words, stream, gridRow + Math.floor(i / columns));
      }
    }
  }

  #scratchOf(count: number): [Float32Array, Float32Array] {
    if (this.#scratch[0].length < count) {
      this.#scratch = [new Float32Array(count), new Float32Array(count)];
    }
    const [scales, others] = this.#scratch;
    return [scales.subarray(0, count), others.subarray(0, count)];
  }
}
