/** The changes of two tensors since their common base. */

import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import type { TransferOptions } from '../../work/transfer.js';
import { BLOCK, isNarrow, Products } from './pair-sums.js';
import { factorOf, LOWEST_LEVEL, levelOf } from './scaled.js';
import {
  alikeWindows,
  isBigInteger,
  type SliceableTensor,
  type ValueWindow,
} from './tensor-values.js';

type Values = ArrayLike<number>;

/** Adds up changes of one tensor, or of several. */
export class Changes {
  readonly #products = new Products();

  /** Adds a window of the base and of both tensors, but no values that are not finite in all three. */
  add({ values, parts }: ValueWindow): void {
    const [base, a, b] = (parts.every(isBigInteger) ? exactChanges(parts) : values) as [
      Values,
      Values,
      Values,
    ];
    const isWide = ![base, a, b].every(isNarrow);
    for (const { begin, end } of cut(0, base.length, BLOCK)) {
      // Only doubles have changes whose squares are inexact.
      if (isWide || !this.#addUsual(base, a, b, begin, end)) {
        this.#addUnusual(base, a, b, begin, end);
      }
    }
  }

  /** Adds all values that were added to others. */
  addAll(others: Changes): void {
    this.#products.add(others.#products.sum);
  }

  /** Cosine similarity of a − base and b − base; null if one side has no change. */
  get cosine(): number | null {
    return this.#products.result().cosine;
  }

  /** Adds the values [begin, end); returns false without adding them when some are NaN or infinite. */
  #addUsual(base: Values, a: Values, b: Values, begin: number, end: number): boolean {
    let [dot, squaresA, squaresB] = [0, 0, 0];
    for (let i = begin; i < end; i++) {
      const from = base[i] as number;
      const p = (a[i] as number) - from;
      const q = (b[i] as number) - from;
      dot += p * q;
      squaresA += p * p;
      squaresB += q * q;
    }
    if (!Number.isFinite(squaresA + squaresB)) return false;
    this.#products.add({ squares: 0, dot, squaresA, squaresB, levels: [LOWEST_LEVEL, 0, 0] });
    return true;
  }

  /** Adds the values [begin, end) when some are NaN, infinite or extreme. */
  #addUnusual(base: Values, a: Values, b: Values, begin: number, end: number): void {
    const finite: number[] = [];
    let [mostA, mostB] = [0, 0];
    for (let i = begin; i < end; i++) {
      const [from, x, y] = [base[i], a[i], b[i]] as [number, number, number];
      if (![from, x, y].every(Number.isFinite)) continue;
      finite.push(i);
      mostA = Math.max(mostA, Math.abs(x - from));
      mostB = Math.max(mostB, Math.abs(y - from));
    }
    const levels = [LOWEST_LEVEL, levelOf(mostA), levelOf(mostB)] as const;
    let [dot, squaresA, squaresB] = [0, 0, 0];
    for (const i of finite) {
      const p = scaledChange(base[i] as number, a[i] as number, levels[1]);
      const q = scaledChange(base[i] as number, b[i] as number, levels[2]);
      dot += p * q;
      squaresA += p * p;
      squaresB += q * q;
    }
    this.#products.add({ squares: 0, dot, squaresA, squaresB, levels });
  }
}

/** The difference of large values overflows; that of small ones gets inexact when they are scaled apart. */
function scaledChange(from: number, to: number, level: number): number {
  const factor = factorOf(level);
  return level > 0 ? to * factor - from * factor : (to - from) * factor;
}

/** 64-bit integers less those of the base, exactly: rounded to doubles, different integers can be equal. */
function exactChanges(parts: readonly Tensor[]): Values[] {
  const data = parts.map((part) => part.data as BigInt64Array);
  const base = data[0] as BigInt64Array;
  return data.map((values) =>
    Float64Array.from(values, (value, i) => Number(value - (base[i] as bigint))),
  );
}

/**
 * The changes of two tensors of one shape since a base of that shape.
 *
 * @throws As `tensorValues`
 */
export async function changesOf(
  tensors: readonly [base: SliceableTensor, a: SliceableTensor, b: SliceableTensor],
  options: TransferOptions,
): Promise<Changes> {
  const changes = new Changes();
  for await (const window of alikeWindows(tensors, options)) changes.add(window);
  return changes;
}
