/** Sums over pairs of values, from which errors and cosines are computed. */

import { cut } from '../../work/byte-ranges.js';
import { factorOf, isOrdinarySum, LOWEST_LEVEL, levelOf, raised } from './scaled.js';

/** Elements to add up at a time: one NaN or infinity among them slows all of them. */
export const BLOCK: number = 2 ** 12;

/** Sums over pairs of values. */
export interface Sums {
  differing: number;
  /** Pairs that have an error. */
  compared: number;
  /** Pairs with NaN or an infinity. */
  nonFinite: number;
  maxError: number;
  readonly products: Products;
}

/** Sums of the errors' squares, of the values' squares and of products, in units of the levels of their factors. */
export interface Powers {
  readonly squares: number;
  readonly dot: number;
  readonly squaresA: number;
  readonly squaresB: number;
  /** Of the errors, of the first and of the second values. */
  readonly levels: readonly [error: number, a: number, b: number];
}

/** Adds up sums of any levels. */
export class Products {
  #sum: Powers = {
    ...{ squares: 0, dot: 0, squaresA: 0, squaresB: 0 },
    levels: [LOWEST_LEVEL, LOWEST_LEVEL, LOWEST_LEVEL],
  };

  /** The sums so far. */
  get sum(): Powers {
    return this.#sum;
  }

  add(other: Powers): void {
    const [error, a, b] = this.#sum.levels.map((level, i) =>
      Math.max(level, other.levels[i] as number),
    ) as [number, number, number];
    const [one, two] = [this.#sum, other].map(({ levels: [ownError, ownA, ownB], ...sums }) => ({
      squares: raised(sums.squares, 2 * (ownError - error)),
      dot: raised(sums.dot, ownA - a + ownB - b),
      squaresA: raised(sums.squaresA, 2 * (ownA - a)),
      squaresB: raised(sums.squaresB, 2 * (ownB - b)),
    })) as [Omit<Powers, 'levels'>, Omit<Powers, 'levels'>];
    this.#sum = {
      squares: one.squares + two.squares,
      dot: one.dot + two.dot,
      squaresA: one.squaresA + two.squaresA,
      squaresB: one.squaresB + two.squaresB,
      levels: [error, a, b],
    };
  }

  /** ‖x − y‖ / ‖x‖ and the cosine similarity; null where a side that divides has only zeros. */
  result(): { readonly relative: number | null; readonly cosine: number | null } {
    const { squares, dot, squaresA, squaresB, levels } = this.#sum;
    const [error, a] = levels;
    const norms = Math.sqrt(squaresA) * Math.sqrt(squaresB);
    return {
      relative: squaresA === 0 ? null : raised(Math.sqrt(squares) / Math.sqrt(squaresA), error - a),
      cosine: norms === 0 ? null : Math.min(1, Math.max(-1, dot / norms)),
    };
  }
}

/** Sums over no pairs. */
export function emptySums(): Sums {
  return { differing: 0, compared: 0, nonFinite: 0, maxError: 0, products: new Products() };
}

/** Whether no value needs more than 32 bits. */
export function isNarrow(values: ArrayLike<number>): boolean {
  return (values as Float32Array).BYTES_PER_ELEMENT <= 4;
}

/** Adds the pairs of values at the same places. */
export function addPairs(sums: Sums, x: ArrayLike<number>, y: ArrayLike<number>): void {
  for (const { begin, end } of cut(0, x.length, BLOCK)) addBlock(sums, x, y, begin, end);
}

/** Adds the pairs [begin, end). */
function addBlock(
  sums: Sums,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  begin: number,
  end: number,
): void {
  let [differing, maxError, squares, dot, squaresA, squaresB] = [0, 0, 0, 0, 0, 0];
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    const error = Math.abs(p - q);
    if (error !== 0) {
      differing++;
      if (error > maxError) maxError = error;
      squares += error * error;
    }
    dot += p * q;
    squaresA += p * p;
    squaresB += q * q;
  }
  // An infinity or NaN among the values makes the sums infinite or NaN. Only doubles can be so extreme that their
  // squares are inexact.
  const isWide = !(isNarrow(x) && isNarrow(y));
  const isOrdinary = isWide
    ? [squaresA, squaresB].every(isOrdinarySum) && (maxError === 0 || isOrdinarySum(squares))
    : Number.isFinite(squaresA + squaresB);
  if (!isOrdinary) {
    addUnusualPairs(sums, x, y, begin, end);
    return;
  }
  sums.differing += differing;
  sums.compared += end - begin;
  sums.maxError = Math.max(sums.maxError, maxError);
  const errorLevel = maxError === 0 ? LOWEST_LEVEL : 0;
  sums.products.add({ squares, dot, squaresA, squaresB, levels: [errorLevel, 0, 0] });
}

/** Adds the pairs [begin, end) when some are NaN, infinite or extreme: several times as slow. */
function addUnusualPairs(
  sums: Sums,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  begin: number,
  end: number,
): void {
  let [mostError, mostA, mostB] = [0, 0, 0];
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    if (p !== q && !(Number.isNaN(p) && Number.isNaN(q))) sums.differing++;
    const error = Math.abs(p - q);
    // Skips NaN and equal infinities.
    if (!Number.isNaN(error)) {
      sums.compared++;
      if (error > sums.maxError) sums.maxError = error;
    }
    if (Number.isFinite(p) && Number.isFinite(q)) {
      mostError = Math.max(mostError, error);
      mostA = Math.max(mostA, Math.abs(p));
      mostB = Math.max(mostB, Math.abs(q));
    } else sums.nonFinite++;
  }
  const [error, a, b] = [levelOf(mostError), levelOf(mostA), levelOf(mostB)];
  const [factor, factorA, factorB] = [factorOf(error), factorOf(a), factorOf(b)];
  let [squares, dot, squaresA, squaresB] = [0, 0, 0, 0];
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    if (!(Number.isFinite(p) && Number.isFinite(q))) continue;
    // The difference of large values overflows; that of small ones gets inexact when they are scaled apart.
    squares += (error > 0 ? p * factor - q * factor : (p - q) * factor) ** 2;
    dot += p * factorA * (q * factorB);
    squaresA += (p * factorA) ** 2;
    squaresB += (q * factorB) ** 2;
  }
  sums.products.add({ squares, dot, squaresA, squaresB, levels: [error, a, b] });
}
