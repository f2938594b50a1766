/**
 * The rules of ComfyUI's formats, written once more: one value at a time, from the bits of the stored tensors; a
 * rotation as a product with the whole matrix. Without a line of the library's.
 */
import type { ComfyWeight } from './generated-comfy.js';
import { NAME, WEIGHT } from './generated-tensors.js';
import { e2m1, item, nibble, type RuleTensor } from './rules.js';

const { fround } = Math;

type Stored = ReadonlyMap<string, RuleTensor>;

/** The value at [matrix, row, column] of the matrices as they are stored. */
type Rule = (matrix: number, row: number, column: number) => number;

/** A stored matrix's rows and columns, before they are cropped. */
interface Size {
  readonly rows: number;
  readonly columns: number;
}

const count = ({ shape }: RuleTensor): number => shape.reduce((a, b) => a * b, 1);

/** All values. */
export function comfyValues(made: ComfyWeight, stored: Stored): Float32Array {
  const weight = stored.get(WEIGHT) as RuleTensor;
  const isPacked = !/^(?:fp8|int8|mxfp8)/.test(made.scheme);
  const size = {
    rows: weight.shape.at(-2) as number,
    columns: (weight.shape.at(-1) as number) * (isPacked ? 2 : 1),
  };
  const rule = ruleOf(made, stored, size);
  const [columns = 1, rows = 1, matrices = 1] = made.shape.toReversed();
  const factors = stored.get(`${NAME}.pre_quant_scale`);
  const values: number[] = [];
  for (let matrix = 0; matrix < matrices; matrix++) {
    for (let row = 0; row < rows; row++) {
      const whole = Array.from({ length: size.columns }, (_, column) => rule(matrix, row, column));
      const own = turned(made, stored, whole, matrix * size.rows + row).slice(0, columns);
      for (const [column, value] of own.entries()) {
        values.push(
          factors === undefined ? value : fround(value * item(factors, factors.dtype, column)),
        );
      }
    }
  }
  return Float32Array.from(values);
}

/** Values before a rotation: of rotated weights integers, else the final ones. */
function ruleOf(made: ComfyWeight, stored: Stored, { rows, columns }: Size): Rule {
  const weight = stored.get(WEIGHT) as RuleTensor;
  const at = (matrix: number, row: number, column: number): number =>
    (matrix * rows + row) * columns + column;
  const { scheme, block } = made;
  const scale = (stored.get(`${WEIGHT}_scale`) ??
    stored.get(`${NAME}.scale_weight`) ??
    stored.get(`${WEIGHT}_s_rel`)) as RuleTensor;
  const [gridRows, gridColumns] = [Math.ceil(rows / block[0]), Math.ceil(columns / block[1])];
  const place = (matrix: number, row: number, column: number): number => {
    if (count(scale) === 1) return 0;
    const first = matrix * gridRows + Math.floor(row / block[0]);
    return first * gridColumns + Math.floor(column / block[1]);
  };
  if (scheme === 'nvfp4' || scheme === 'mxfp8') {
    const global = stored.get(`${WEIGHT}_scale_2`);
    return (matrix, row, column) => {
      const own = tiledPlace(scale, matrix, row, Math.floor(column / block[1]));
      if (scheme === 'mxfp8') {
        return fround(
          item(weight, 'F8_E4M3', at(matrix, row, column)) * item(scale, 'F8_E8M0', own),
        );
      }
      const all = global as RuleTensor;
      const factor = item(all, 'F32', count(all) === 1 ? 0 : matrix);
      const code = nibble(weight, at(matrix, row, column), true);
      const number = code === 8 ? -0 : e2m1(code);
      return fround(number * fround(item(scale, 'F8_E4M3', own) * factor));
    };
  }
  if (scheme === 'convrot_w4a4') {
    return (matrix, row, column) => {
      const code = nibble(weight, at(matrix, row, column));
      return code > 7 ? code - 16 : code;
    };
  }
  if (scheme === 'asym_w4a8_int8') {
    const book = stored.get(`${WEIGHT}_codebook`);
    return (matrix, row, column) => {
      const code = nibble(weight, at(matrix, row, column));
      const number = book === undefined ? code - 8 : item(book, 'F32', code);
      const dtype = scale.dtype === 'U8' ? 'F8_E4M3' : scale.dtype;
      const product = fround(number * item(scale, dtype, place(matrix, row, column)));
      return Math.max(-127, Math.min(127, halvesToEven(product)));
    };
  }
  if (scheme === 'awq_w4a16') {
    const zeros = stored.get(`${WEIGHT}_zeros`) as RuleTensor;
    return (matrix, row, column) => {
      const own = Math.floor(column / block[1]) * rows + row;
      const code = nibble(weight, at(matrix, row, column)) - 8;
      return fround(fround(code * item(scale, scale.dtype, own)) + item(zeros, zeros.dtype, own));
    };
  }
  return (matrix, row, column) => {
    const code = item(weight, weight.dtype, at(matrix, row, column));
    if (made.rotation !== null) return code;
    return fround(code * item(scale, scale.dtype, place(matrix, row, column)));
  };
}

/** The place of a scale in the tensor: tiles of 128 × 4, each matrix for itself. */
function tiledPlace({ shape }: RuleTensor, matrix: number, r: number, c: number): number {
  const [columns = 0, rows = 0] = shape.toReversed();
  const tile = Math.floor(r / 128) * (columns / 4) + Math.floor(c / 4);
  const inTile = (r % 32) * 16 + Math.floor((r % 128) / 32) * 4 + (c % 4);
  return matrix * rows * columns + tile * 512 + inTile;
}

function halvesToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

const H4 = [
  [1, 1, 1, -1],
  [1, 1, -1, 1],
  [1, -1, 1, 1],
  [-1, 1, 1, 1],
] as const;

/** The entry of a Kronecker power of the matrix: the product of those of all digits to base 4. */
function hadamard(length: number, i: number, j: number): number {
  if (length === 1) return 1;
  const own = (H4[i % 4] as readonly number[])[j % 4] as number;
  return own * hadamard(length / 4, Math.floor(i / 4), Math.floor(j / 4));
}

const matrices = new Map<number, Int8Array>();

function hadamardOf(length: number): Int8Array {
  const found = matrices.get(length);
  if (found !== undefined) return found;
  const made = Int8Array.from({ length: length * length }, (_, i) =>
    hadamard(length, Math.floor(i / length), i % length),
  );
  matrices.set(length, made);
  return made;
}

/** A row, turned back. */
function turned(
  { rotation, block }: ComfyWeight,
  stored: Stored,
  row: number[],
  number: number,
): number[] {
  if (rotation === null) return row;
  const ofRows = stored.get(`${WEIGHT}_s_channel`);
  const scale = ofRows ?? (stored.get(`${WEIGHT}_scale`) as RuleTensor);
  const isOne = ofRows === undefined && count(scale) === 1 && block[0] >= 1;
  const factor = item(scale, 'F32', isOne ? 0 : number);
  const matrix = hadamardOf(rotation);
  return row.map((_, column) => {
    const [group, j] = [Math.floor(column / rotation) * rotation, column % rotation];
    let sum = 0;
    for (let i = 0; i < rotation; i++) {
      sum += (matrix[i * rotation + j] as number) * (row[group + i] as number);
    }
    return fround(fround(sum * factor) / Math.sqrt(rotation));
  });
}
