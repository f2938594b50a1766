/** What a plan has for a logical tensor: its shape, and how its values come from the stored tensors. */

import type { Dtype } from '../../header/dtype.js';

/** A tensor of the checkpoint, without its bytes. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** How the codes of a row lie in its bytes. */
export type Packing =
  /** One element of this dtype each. */
  | { readonly kind: 'elements'; readonly dtype: Dtype }
  /** Two E2M1 numbers a byte. */
  | { readonly kind: 'e2m1'; readonly first: 'low' | 'high' }
  /** Two integers a byte, the first in the low four bits: of two's complement, 8 more than they are, or indices. */
  | { readonly kind: 'nibbles'; readonly numbers: 'signed' | 'offset' | StoredTensor }
  /**
   * Words of 32 bits, from the lowest bit on: a dense stream of codes, or `perWord` codes in each word whose upper bits
   * are unused.
   */
  | { readonly kind: 'bits'; readonly bits: number; readonly perWord: number | null };

/** Which scale belongs to a code: each of the `matrices` has rows × columns of scales, one per block. */
export interface Grid {
  /** 1 when all matrices of the weight share one grid. */
  readonly matrices: number;
  readonly rows: number;
  readonly columns: number;
  readonly blockRows: number;
  readonly blockColumns: number;
}

/**
 * How the items of a grid are stored: row by row; each matrix in tiles of 128 × 4, padded; or with its last two axes
 * exchanged.
 */
export type GridOrder = 'rows' | 'tiles' | 'columns';

/** A tensor with one item per block of a grid. */
interface GridTensor {
  readonly tensor: StoredTensor;
  /** The dtype to read its elements as: U8 may hold exponents, or E4M3. */
  readonly dtype: Dtype;
}

/** What is subtracted from the codes. */
export type Zero =
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'grid'; readonly tensor: StoredTensor }
  /** Integers as the codes of the weight are packed, but down the columns of the grid. */
  | { readonly kind: 'packed'; readonly tensor: StoredTensor };

/** Codes row by row, with scales in a grid. */
export interface RowLayout {
  readonly kind: 'rows';
  readonly codes: StoredTensor;
  readonly packing: Packing;
  readonly grid: Grid;
  readonly scale: GridTensor;
  /** The order of the scales, and of the bias. */
  readonly order: GridOrder;
  /** A single number for all scales, or for those of each matrix. */
  readonly global: { readonly tensor: StoredTensor; readonly divides: boolean } | null;
  readonly zero: Zero | null;
  /** Added after the product. */
  readonly bias: StoredTensor | null;
  /** Multiplied after the product. */
  readonly factor: number | null;
  /** The column of the grid for each column of the weight, in any order. */
  readonly columnGroups: StoredTensor | null;
  /** The basis of the rows. */
  readonly rotation: Rotation | null;
  /** A factor for each column of the values, multiplied last. */
  readonly columnFactors: StoredTensor | null;
  /** Rows and columns of each matrix as stored, where they are padded. */
  readonly padded: { readonly rows: number; readonly columns: number } | null;
}

/** Rows that are multiplied by a regular Hadamard matrix, group by group of columns. */
export interface Rotation {
  /** Columns of a group: a power of 4. */
  readonly length: number;
  /**
   * A scale for each row, where the grid has the scales of codes, whose products are rounded to integers of 8 bits;
   * null where the grid has the scales of rows.
   */
  readonly rowScale: StoredTensor | null;
}

/** bitsandbytes: two codes a byte, the first in the high four bits; blocks run over rows. */
export interface FlatLayout {
  readonly kind: 'flat';
  readonly codes: StoredTensor;
  readonly map: StoredTensor;
  readonly absmax: StoredTensor;
  readonly blockLength: number;
  readonly nested: {
    readonly absmax: StoredTensor;
    readonly map: StoredTensor;
    readonly blockLength: number;
    readonly offset: number;
  } | null;
}

/** How zero points of GPTQ are stored. */
export type ZeroOffset =
  /** One less than they are. With `isSymmetric`, fields that all are 2^(bits - 1) are taken as they are. */
  | { readonly kind: 'one-less'; readonly isSymmetric: boolean }
  | { readonly kind: 'as-is' }
  /** No configuration says it: only symmetric zero points tell. */
  | { readonly kind: 'by-data' };

/** GPTQ and AWQ: columns of the stored tensors are rows of the weight. */
export interface ColumnLayout {
  readonly kind: 'columns';
  readonly codes: StoredTensor;
  readonly zeros: StoredTensor;
  readonly scales: StoredTensor;
  readonly columnGroups: StoredTensor | null;
  readonly groupLength: number;
  readonly bits: number;
  /** Null for AWQ, whose words hold eight columns, interleaved. */
  readonly offset: ZeroOffset | null;
}

/** MXFP4 of gpt-oss: the last two axes of [E, O, G, 16] blocks are exchanged. */
export interface ExchangedLayout {
  readonly kind: 'exchanged';
  readonly codes: StoredTensor;
  readonly scales: StoredTensor;
}

/** GGUF: rows of blocks that interleave codes with their scales. */
export interface BlockLayout {
  readonly kind: 'blocks';
  /** Its last dimension counts the bytes of a row. */
  readonly codes: StoredTensor;
  /** Decodes whole blocks, one after the other, into exactly their values. */
  readonly decode: (blocks: Uint8Array, into: Float32Array) => void;
}

/** How the values of a logical tensor come from stored ones. */
export type Layout = RowLayout | FlatLayout | ColumnLayout | ExchangedLayout | BlockLayout;

/** A logical tensor that is stored quantized. */
export interface LogicalPlan {
  readonly name: string;
  readonly shape: readonly number[];
  /** Name of the scheme, such as `fp8`. */
  readonly scheme: string;
  /** Bits per code. */
  readonly bits: number;
  /** Rows and columns that share a scale; a single number where blocks run over rows. Null for one scale in all. */
  readonly block: readonly number[] | null;
  /** Names of the stored tensors that it is made of, by what they are. */
  readonly storedAs: Readonly<Record<string, string>>;
  readonly layout: Layout;
}

/** Parts of a row layout that most schemes lack. */
type RowOptions =
  | 'order'
  | 'global'
  | 'zero'
  | 'bias'
  | 'factor'
  | 'columnGroups'
  | 'rotation'
  | 'columnFactors'
  | 'padded';

/**
 * A layout of rows; what is not given is null. Written out, as is {@link namesOf}: a model may have fifty thousand
 * weights, and an object literal that spreads others into itself takes the engine microseconds.
 */
export function rowLayout({
  codes,
  packing,
  grid,
  scale,
  order = 'rows',
  global = null,
  zero = null,
  bias = null,
  factor = null,
  columnGroups = null,
  rotation = null,
  columnFactors = null,
  padded = null,
}: Omit<RowLayout, RowOptions | 'kind'> & Partial<Pick<RowLayout, RowOptions>>): RowLayout {
  return {
    kind: 'rows',
    codes,
    packing,
    grid,
    scale,
    order,
    global,
    zero,
    bias,
    factor,
    columnGroups,
    rotation,
    columnFactors,
    padded,
  };
}

/** The names of the stored tensors that are there, by what they are; frozen. */
export function namesOf(
  parts: Readonly<Record<string, StoredTensor | null | undefined>>,
): Readonly<Record<string, string>> {
  const names: Record<string, string> = {};
  for (const part in parts) {
    const tensor = parts[part];
    if (tensor !== null && tensor !== undefined) names[part] = tensor.name;
  }
  return Object.freeze(names);
}
