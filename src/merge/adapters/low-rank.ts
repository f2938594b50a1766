/** Changes by products of factors: LoRA and DoRA, LoCon, LoHa and LoKr. */

import type { ErrorContext } from '../../errors/errors.js';
import type { MergeDtype } from '../values.js';
import type { Slot, Step, WeightChange } from './change.js';
import { formatShape, invalidAdapter, shapeMismatch } from './errors.js';
import {
  factorsOf,
  type Matrix,
  matrixOf,
  matrixShape,
  productOf,
  transposed,
  tuckerRight,
  valuesOf,
} from './factors.js';
import type { AdapterModule, Part, PartTensor } from './keys.js';
import { ColumnNorms, MagnitudeStep } from './magnitude.js';
import { Factors } from './product.js';
import {
  addExperts,
  addFactors,
  addHadamard,
  addKronecker,
  addReshapedKronecker,
  addRounded,
} from './steps.js';

/** LyCORIS's epsilon: that of float32. */
const EPSILON = 2 ** -23;

/** A module's adapter, and how strong it is. */
export interface ModuleAdapter {
  readonly module: AdapterModule;
  /** The adapter, for errors. */
  readonly context: ErrorContext;
  /** Alpha / rank of factors of that rank; `null` where whole matrices are not scaled. */
  scaleOf(rank: number): number;
  /** The caller's factor. */
  readonly strength: number;
}

/** How factors are multiplied. */
export interface Orientation {
  /** Whether the weight is stored as `[in, out]`, as those of embeddings and of GPT-2. */
  readonly isTransposed: boolean;
}

/** Returns a part that must be there. */
export function requirePart(
  { module, context }: ModuleAdapter,
  part: Part,
  found: Part,
): PartTensor {
  const tensor = module.parts.get(part);
  if (tensor !== undefined) return tensor;
  const key = module.parts.get(found)?.key;
  throw invalidAdapter(`${key} has no counterpart: the adapter is incomplete`, context);
}

/** Whether shapes are the same apart from dimensions of 1 at their ends. */
export function sameShape(one: readonly number[], other: readonly number[]): boolean {
  const trimmed = (shape: readonly number[]): string => shape.join().replace(/(?:,1)+$/, '');
  return trimmed(one) === trimmed(other);
}

/** LoRA, of which both factors are there: `W + scale · B · A`. */
export function loraChange(
  adapter: ModuleAdapter,
  slot: Slot,
  { isTransposed }: Orientation,
): WeightChange {
  const { module, context } = adapter;
  const { parts } = module;
  const isTokens = parts.has('tokenDown') || parts.has('tokenUp');
  const [downPart, upPart]: [Part, Part] = isTokens ? ['tokenDown', 'tokenUp'] : ['down', 'up'];
  const down = requirePart(adapter, downPart, upPart).tensor;
  const up = requirePart(adapter, upPart, downPart).tensor;
  const mid = parts.get('mid')?.tensor;
  const [out, rank] = matrixShape(up.shape);
  const [downRank, inner] = matrixShape(down.shape);
  const [midRank = rank, midDown = rank] = mid?.shape ?? [];
  const [rows, columns] = isTransposed ? [inner, out] : [out, inner * kernelOf(mid?.shape)];
  const isFit =
    rows === slot.rows &&
    columns === slot.columns &&
    midRank === rank &&
    midDown === downRank &&
    (isTransposed || mid !== undefined || sameShape(down.shape.slice(1), slot.shape.slice(1)));
  if (!isFit) {
    const found = `${module.path}: ${formatShape(up.shape)} × ${formatShape(down.shape)}`;
    throw shapeMismatch(found, slot.entry.name, slot.shape, context);
  }
  const ofLyCoris = parts.get('doraScale');
  // Where LyCORIS trained norms, the strength is how far they change.
  const scale = adapter.scaleOf(rank) * (ofLyCoris === undefined ? adapter.strength : 1);
  const add = (): Step => {
    if (mid !== undefined) {
      return addFactors(factorsOf(matrixOf(up), tuckerRight(mid, matrixOf(down)), scale));
    }
    const [left, right] = isTransposed
      ? [transposed(matrixOf(down)), transposed(matrixOf(up))]
      : [matrixOf(up), matrixOf(down)];
    const step = addFactors(factorsOf(left, right, scale));
    const isRounded = isTokens && normed === null;
    return isRounded ? addRounded(step, slot.entry.dtype as MergeDtype) : step;
  };
  const normed = magnitudeOf(adapter, slot, isTransposed);
  return {
    kind: normed === null ? 'lora' : 'dora',
    rank,
    scale: adapter.scaleOf(rank) * adapter.strength,
    open: () => [add(), ...(normed?.() ?? [])],
  };
}

/** LoRA of the experts of a layer, one after the other in both factors. */
export function expertsChange(
  adapter: ModuleAdapter,
  slot: Slot,
  { isTransposed }: Orientation,
): WeightChange {
  const { module, context } = adapter;
  const down = requirePart(adapter, 'down', 'up').tensor;
  const up = requirePart(adapter, 'up', 'down').tensor;
  const [experts, height, width] = [1, 1, ...slot.shape].slice(-3) as [number, number, number];
  const [allRanks, inner] = matrixShape(down.shape);
  const [out, upRanks] = matrixShape(up.shape);
  const rank = allRanks / experts;
  const expected = isTransposed ? [inner, out] : [out, inner];
  const isFit = height === expected[0] && width === expected[1] && allRanks === upRanks;
  if (!isFit || !Number.isInteger(rank)) {
    const found = `${module.path}: ${formatShape(up.shape)} × ${formatShape(down.shape)}`;
    throw shapeMismatch(found, slot.entry.name, slot.shape, context);
  }
  const scale = adapter.scaleOf(rank) * adapter.strength;
  const open = (): Step[] => {
    const [downs, ups] = [valuesOf(down), valuesOf(up)];
    const left = new Float64Array(slot.rows * rank);
    const right = new Float64Array(experts * rank * width);
    for (let expert = 0; expert < experts; expert++) {
      for (let k = 0; k < rank; k++) {
        const ofDown = (i: number): number => downs[(expert * rank + k) * inner + i] as number;
        // The expert is the last index of B's second dimension.
        const ofUp = (i: number): number => ups[i * upRanks + k * experts + expert] as number;
        const [ofLeft, ofRight] = isTransposed ? [ofDown, ofUp] : [ofUp, ofDown];
        for (let i = 0; i < height; i++) {
          left[(expert * height + i) * rank + k] = scale * ofLeft(i);
        }
        const at = (expert * rank + k) * width;
        for (let i = 0; i < width; i++) right[at + i] = ofRight(i);
      }
    }
    const factors = new Factors(left, right, rank, width);
    return [addRounded(addExperts(factors, height), slot.entry.dtype as MergeDtype)];
  };
  return { kind: 'lora', rank, scale, ofExperts: true, open };
}

/** LoHa: adds the elementwise product of two products. */
export function lohaChange(adapter: ModuleAdapter, slot: Slot): WeightChange {
  const { module, context } = adapter;
  const [found] = module.parts.keys() as IterableIterator<Part>;
  const products = (['1', '2'] as const).map((i) => ({
    a: requirePart(adapter, `hada_w${i}_a`, found as Part).tensor,
    b: requirePart(adapter, `hada_w${i}_b`, found as Part).tensor,
    core: module.parts.get(`hada_t${i}`)?.tensor,
  }));
  const [rank = 1] = products[0]?.b.shape ?? [];
  for (const { a, b, core } of products) {
    const [aRows, aColumns] = matrixShape(a.shape);
    const [bRows, bColumns] = matrixShape(b.shape);
    const [out, aRank] = core === undefined ? [aRows, aColumns] : [aColumns, aRows];
    const [left = aRank, right = bRows] = core?.shape ?? [aRank, aRank];
    const isFit = left === aRank && right === bRows && out === slot.rows;
    if (isFit && bColumns * kernelOf(core?.shape) === slot.columns) continue;
    const shapes = `${module.path}: ${formatShape(a.shape)} × ${formatShape(b.shape)}`;
    throw shapeMismatch(shapes, slot.entry.name, slot.shape, context);
  }
  const ofLyCoris = module.parts.has('doraScale');
  const scale = adapter.scaleOf(rank);
  const used = ofLyCoris ? scale : scale * adapter.strength;
  const normed = magnitudeOf(adapter, slot, false);
  const open = (): Step[] => {
    const [one, other] = products.map(({ a, b, core }, i): Factors => {
      const factor = i === 0 ? used : 1;
      if (core === undefined) return factorsOf(matrixOf(a), matrixOf(b), factor);
      return factorsOf(transposed(matrixOf(a)), tuckerRight(core, matrixOf(b)), factor);
    }) as [Factors, Factors];
    return [addHadamard(one, other), ...(normed?.() ?? [])];
  };
  return { kind: 'loha', rank, scale: scale * adapter.strength, open };
}

/**
 * LoKr: adds a Kronecker product.
 *
 * @param isPeft PEFT scales the product of two whole matrices, too; LyCORIS does not
 */
export function lokrChange(adapter: ModuleAdapter, slot: Slot, isPeft: boolean): WeightChange {
  const { module, context } = adapter;
  const { parts } = module;
  const first = lokrFactor(adapter, 'lokr_w1');
  const second = lokrFactor(adapter, 'lokr_w2');
  const isFit =
    first.rows * second.rows === slot.rows && first.columns * second.columns === slot.columns;
  if (!isFit) {
    const found = `${module.path}: ${first.rows} × ${first.columns} and ${second.rows} × ${second.columns}`;
    throw shapeMismatch(found, slot.entry.name, slot.shape, context);
  }
  const rank = first.rank ?? second.rank;
  const ownScale = rank === null && !isPeft ? 1 : adapter.scaleOf(rank ?? 0);
  const used = parts.has('doraScale') ? ownScale : ownScale * adapter.strength;
  const normed = magnitudeOf(adapter, slot, false);
  // [c, d, kernel] of Conv1d.
  const [, , kernel, more] = parts.get('lokr_w2')?.tensor.shape ?? [];
  const isReshaped = isPeft && kernel !== undefined && more === undefined;
  const open = (): Step[] => {
    const [left, right] = [first.open(), second.open()];
    const step = isReshaped
      ? addReshapedKronecker(left, right, kernel, used)
      : addKronecker(left, right, used);
    return [step, ...(normed?.() ?? [])];
  };
  return { kind: 'lokr', rank, scale: ownScale * adapter.strength, open };
}

/** One factor of a Kronecker product: whole, or a product. */
interface KroneckerFactor {
  readonly rows: number;
  readonly columns: number;
  /** Null of a whole matrix. */
  readonly rank: number | null;
  open(): Matrix;
}

function lokrFactor(adapter: ModuleAdapter, name: 'lokr_w1' | 'lokr_w2'): KroneckerFactor {
  const { parts } = adapter.module;
  const whole = parts.get(name)?.tensor;
  if (whole !== undefined) {
    const [rows, columns] = matrixShape(whole.shape);
    return { rows, columns, rank: null, open: () => matrixOf(whole) };
  }
  const [found] = parts.keys() as IterableIterator<Part>;
  const a = requirePart(adapter, `${name}_a`, found as Part).tensor;
  const b = requirePart(adapter, `${name}_b`, found as Part).tensor;
  const core = name === 'lokr_w2' ? parts.get('lokr_t2')?.tensor : undefined;
  const [aRows, aColumns] = matrixShape(a.shape);
  const [rank, bColumns] = matrixShape(b.shape);
  const [rows, aRank] = core === undefined ? [aRows, aColumns] : [aColumns, aRows];
  const [left = aRank, right = rank] = core?.shape ?? [aRank, aRank];
  if (left !== aRank || right !== rank) {
    throw invalidAdapter(`${adapter.module.path}: the ranks of ${name} differ`, adapter.context);
  }
  const open = (): Matrix =>
    core === undefined
      ? productOf(matrixOf(a), matrixOf(b))
      : productOf(transposed(matrixOf(a)), tuckerRight(core, matrixOf(b)));
  return { rows, columns: bColumns * kernelOf(core?.shape), rank, open };
}

/** Length of the kernel of a core `[i, j, k…]`; 1 without one. */
function kernelOf(shape: readonly number[] | undefined): number {
  return shape?.slice(2).reduce((product, size) => product * size, 1) ?? 1;
}

/** Opens the step that sets norms; null where none are trained. */
function magnitudeOf(
  { module, strength, context }: ModuleAdapter,
  slot: Slot,
  isTransposed: boolean,
): (() => Step[]) | null {
  const ofPeft = module.parts.get('magnitude');
  const ofLyCoris = module.parts.get('doraScale');
  const found = ofPeft ?? ofLyCoris;
  if (found === undefined) return null;
  const { tensor, key } = found;
  const count = tensor.elementCount;
  const groups = slot.shape.length > 1 ? (slot.shape[1] as number) : 1;
  // LyCORIS: [out, 1, …] or [1, in, …].
  const byColumn =
    ofPeft === undefined ? tensor.shape[0] !== slot.rows && count === groups : isTransposed;
  if (count !== (byColumn ? groups : slot.rows)) {
    throw shapeMismatch(key, slot.entry.name, slot.shape, context);
  }
  const epsilon = ofPeft === undefined ? EPSILON : 0;
  const own = ofPeft === undefined ? strength : 1;
  const { columns } = slot;
  const norms = new ColumnNorms(groups, columns);
  const magnitude = { values: () => valuesOf(tensor), byColumn, columns, groups, epsilon };
  return () => [new MagnitudeStep({ ...magnitude, strength: own }, norms)];
}
