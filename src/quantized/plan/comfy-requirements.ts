/** What ComfyUI's layouts require of a weight's tensors and of the keys of its marker, or errors that name these. */

import type { Dtype } from '../../header/dtype.js';
import { countOf, type Fields } from './configuration.js';
import { gridOf, type Matrices, tiledShape } from './groups.js';
import type { Grid, Rotation, RowLayout, StoredTensor } from './logical-plan.js';
import { formatShape, invalid, shownValue, unsupported } from './unsupported.js';

/** A weight whose marker names a format, with all that the format needs. */
export interface MarkedWeight {
  readonly weight: StoredTensor;
  /** Where the marker is, for messages. */
  readonly source: string;
  readonly fields: Fields;
  /** A tensor of the module, by the last part of its name. */
  find(member: string): StoredTensor | undefined;
}

/** Columns of a rotation, by default. */
const ROTATION_LENGTH = 256;

/** Longest group of a rotation: its sums times a float32 are exact in doubles. */
const MAX_ROTATION_LENGTH = 65_536;

/** A tensor that `planMarked` has found, with one of these dtypes. */
export function need(
  { weight, find }: MarkedWeight,
  member: string,
  dtypes: readonly Dtype[],
): StoredTensor {
  const tensor = find(member) as StoredTensor;
  if (dtypes.includes(tensor.dtype)) return tensor;
  throw invalid(
    weight.name,
    `expected ${JSON.stringify(tensor.name)} to be ${dtypes.join(' or ')}, found ${tensor.dtype}`,
  );
}

/** Throws for a tensor of any other shape. */
export function requireShape(
  marked: MarkedWeight,
  tensor: StoredTensor,
  shape: readonly number[],
): void {
  if (formatShape(tensor.shape) !== formatShape(shape)) throw wrongShape(marked, tensor, shape);
}

/** The error for a tensor of another shape; a single number may be allowed, too. */
export function wrongShape(
  { weight }: MarkedWeight,
  { name, shape }: StoredTensor,
  expected: readonly number[],
  mayBeOne = false,
): Error {
  const others = mayBeOne && expected.length > 0 ? '[] or ' : '';
  return invalid(
    weight.name,
    `${JSON.stringify(name)} has shape ${formatShape(shape)}, expected ${others}${formatShape(expected)}`,
  );
}

/** The grid of scales that are stored in tiles; any other shape is an error. */
export function tiledGrid(
  marked: MarkedWeight,
  of: Matrices,
  scale: StoredTensor,
  length: number,
): Grid {
  const { weight, source, fields } = marked;
  const { group_size: given = length } = fields;
  if (given !== length) {
    const found = `"group_size": ${shownValue(given)}`;
    throw unsupported(weight.name, `${source} has ${found}, expected ${length}`);
  }
  if (of.columns % length !== 0) {
    throw invalid(weight.name, `${of.columns} columns are not in groups of ${length}`);
  }
  const grid = gridOf(of, [1, length]);
  requireShape(marked, scale, [...weight.shape.slice(0, -2), ...tiledShape(grid)]);
  return grid;
}

/** The shape of the values, and rows and columns as stored where these are more. */
interface Cropped {
  readonly shape: readonly number[];
  readonly padded: RowLayout['padded'];
}

/** The shape without padding, where the marker has it. */
export function croppedShape(
  { weight, source, fields }: MarkedWeight,
  of: Matrices,
  step: number,
): Cropped {
  const stored = [...weight.shape.slice(0, -1), of.columns];
  const { orig_shape: given = stored } = fields;
  const shape: unknown[] = Array.isArray(given) ? given : [];
  const isPadding = (size: unknown, i: number): boolean => {
    const padding = (stored[i] as number) - (size as number);
    const most = i < stored.length - 2 ? 0 : step - 1;
    return Number.isSafeInteger(size) && (size as number) >= 0 && padding >= 0 && padding <= most;
  };
  if (shape.length !== stored.length || !shape.every(isPadding)) {
    throw invalid(
      weight.name,
      `${source} has "orig_shape": ${shownValue(given)}, which padding to multiples of ${step} does not make ` +
        formatShape(stored),
    );
  }
  const isWhole = formatShape(shape as number[]) === formatShape(stored);
  return {
    shape: shape as number[],
    padded: isWhole ? null : { rows: of.rows, columns: of.columns },
  };
}

/** The columns that share a scale. */
export function groupLength(
  { weight, source, fields }: MarkedWeight,
  byDefault: number,
  columns: number,
): number {
  const { group_size: given = byDefault } = fields;
  const length = countOf(given);
  if (length !== undefined && length % 2 === 0 && columns % length === 0) return length;
  throw invalid(
    weight.name,
    `${source} has "group_size": ${shownValue(given)}, expected an even number that divides ${columns} columns`,
  );
}

/** The rotation that `convrot` declares; null for none. */
export function declaredRotation(marked: MarkedWeight, columns: number): Rotation | null {
  const { weight, source, fields } = marked;
  const { convrot = false } = fields;
  if (convrot === true) return rotationOf(marked, columns);
  if (convrot === false) return null;
  throw invalid(
    weight.name,
    `${source} has "convrot": ${shownValue(convrot)}, expected true or false`,
  );
}

/** The rotation of the marker's length, which must divide the columns. */
export function rotationOf(
  { weight, source, fields }: MarkedWeight,
  columns: number,
  rowScale: StoredTensor | null = null,
): Rotation {
  const { convrot_groupsize: length = ROTATION_LENGTH } = fields;
  const isPower =
    typeof length === 'number' && length >= 4 && Number.isInteger(Math.log2(length) / 2);
  if (isPower && columns % length === 0 && length <= MAX_ROTATION_LENGTH) {
    return { length, rowScale };
  }
  throw invalid(
    weight.name,
    `${source} has "convrot_groupsize": ${shownValue(length)}, expected a power of 4 that divides ${columns} columns`,
  );
}
