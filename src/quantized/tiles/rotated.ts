/** Turns tiles of rotated weights back: codes to integers of 8 bits, their exact sums, then the scales of rows. */

import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import type { GroupPart } from '../kernels/groups.js';
import { lookUpNibblePairs, RoundedProducts } from '../kernels/nibbles.js';
import { turnBack } from '../kernels/rotation.js';
import type { Grid, RowLayout } from '../plan/logical-plan.js';
import { invalid } from '../plan/unsupported.js';
import { GridItems } from './group-items.js';
import { requireFinite } from './scales.js';

/**
 * The largest scale of a group without a code book: its codes reach -8, and their products 127. With one they are
 * fractions, and scales larger.
 */
const MAX_SCALE = 64;

/** Codes that are turned at once, for their rows to stay in the processor's first cache. */
const CHUNK_LENGTH = 2 ** 13;

/** A layout with a rotation. */
type RotatedLayout = RowLayout & { readonly rotation: NonNullable<RowLayout['rotation']> };

/** Whether a layout has a rotation. */
export function isRotated(layout: RowLayout): layout is RotatedLayout {
  return layout.rotation !== null;
}

/** Decodes whole rows of one weight. */
export class RowTurner {
  readonly #weight: string;
  readonly #layout: RotatedLayout;
  /** The number of each code of four bits; null for codes of eight. */
  readonly #numbers: Float32Array | null;
  readonly #rowScale: GridItems | null;
  #products: RoundedProducts | undefined;
  #codes = new Int8Array(0);

  /** `rowScale` is the tensor of the layout's rotation. */
  constructor(
    weight: string,
    layout: RotatedLayout,
    numbers: Float32Array | null,
    rowScale: Tensor | null,
  ) {
    this.#weight = weight;
    this.#layout = layout;
    this.#numbers = numbers;
    const { packing, grid } = layout;
    if (numbers !== null && packing.kind === 'nibbles' && typeof packing.numbers === 'object') {
      requireFinite(weight, packing.numbers.name, numbers, 0, numbers.length);
    }
    const rows: Grid = { ...grid, columns: 1 };
    this.#rowScale = rowScale && new GridItems(weight, rowScale, rowScale.dtype, rows, 'rows');
  }

  /** Fills `into` with whole rows of a matrix, from `first` on; `scales` are those of the grid for them. */
  fill(
    bytes: Uint8Array,
    { matrix, first }: { readonly matrix: number; readonly first: number },
    part: GroupPart,
    scales: Float32Array,
    into: Float32Array,
  ): void {
    const { scale, rotation } = this.#layout;
    const { columns, gridColumns } = part;
    requireFinite(this.#weight, scale.tensor.name, scales, first * gridColumns, gridColumns);
    const ofRows = new Float32Array(into.length / columns);
    if (this.#rowScale === null) {
      const { firstRow, blockRows } = part;
      for (let row = 0; row < ofRows.length; row++) {
        ofRows[row] = scales[Math.floor((firstRow + row) / blockRows)] as number;
      }
    } else {
      this.#rowScale.fill(matrix, first, ofRows);
      requireFinite(this.#weight, rotation.rowScale?.name ?? '', ofRows, first, 1);
    }
    this.#requireCodeBook(scales);
    const rows = Math.max(1, Math.floor(CHUNK_LENGTH / columns));
    const rowByteLength = bytes.length / ofRows.length;
    for (const { begin, end } of cut(0, ofRows.length, rows)) {
      const own = bytes.subarray(begin * rowByteLength, end * rowByteLength);
      const ofGroups = scales.subarray(begin * gridColumns, end * gridColumns);
      const codes = this.#codesOf(own, part.blockColumns, ofGroups);
      const values = into.subarray(begin * columns, end * columns);
      turnBack(codes, { columns, length: rotation.length }, ofRows.subarray(begin, end), values);
    }
  }

  /** The codes of some rows as integers of 8 bits; `scales` are those of their groups. */
  #codesOf(bytes: Uint8Array, groupLength: number, scales: Float32Array): Int8Array {
    if (this.#numbers === null) {
      return new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    const length = bytes.length * 2;
    if (this.#codes.length < length) this.#codes = new Int8Array(length);
    const codes = this.#codes.subarray(0, length);
    if (this.#rowScale === null) {
      lookUpNibblePairs(bytes, Int8Array.from(this.#numbers), codes);
    } else {
      this.#products ??= new RoundedProducts(this.#numbers);
      this.#products.lookUp(bytes, groupLength, scales, codes);
    }
    return codes;
  }

  /** Throws for scales that are only possible with a code book where there is none. */
  #requireCodeBook(scales: Float32Array): void {
    const { packing, scale } = this.#layout;
    if (packing.kind !== 'nibbles' || packing.numbers !== 'offset') return;
    const large = scales.find((one) => Math.abs(one) > MAX_SCALE);
    if (large === undefined) return;
    const missing = JSON.stringify(`${this.#weight}_codebook`);
    throw invalid(
      this.#weight,
      `${missing} is missing: ${JSON.stringify(scale.tensor.name)} has ${large}, which only codes of a code book have`,
    );
  }
}
