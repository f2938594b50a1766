/** Adds up the statistics of values, window by window. */

import { isFloat32Array } from '../../errors/brand-checks.js';
import type { Dtype } from '../../header/dtype.js';
import type { PatternCounts } from './patterns.js';
import { factorOf, LOWEST_LEVEL, levelOf, raised } from './scaled.js';

/** Of real numbers. NaN and infinities are counted, and left out of min, max, mean and std. */
export interface Statistics {
  /** All values. */
  readonly elements: number;
  /** Null, as the next three, without finite values. */
  readonly min: number | null;
  /** The greatest finite value. */
  readonly max: number | null;
  /** The mean of the finite values. */
  readonly mean: number | null;
  /** Standard deviation of the population: divides by the number of values. */
  readonly std: number | null;
  /** Values that are NaN. */
  readonly nan: number;
  /** Infinities of both signs. */
  readonly infinite: number;
  /** Values that are 0 or -0. */
  readonly zero: number;
  /** Values nearer to zero than the least normal number of their dtype, and not zero. */
  readonly subnormal: number;
}

/** The least positive normal number of each dtype that has subnormal ones. */
const LEAST_NORMAL: Readonly<Partial<Record<Dtype, number>>> = {
  F64: 2 ** -1022,
  F32: 2 ** -126,
  BF16: 2 ** -126,
  F16: 2 ** -14,
  F8_E5M2: 2 ** -14,
  F8_E5M2FNUZ: 2 ** -15,
  F8_E4M3: 2 ** -6,
  F8_E4M3FNUZ: 2 ** -7,
  F6_E3M2: 2 ** -2,
  F6_E2M3: 1,
  F4: 1,
};

/** Values of a block: it stays in the processor's cache between the two loops over it. */
const BLOCK = 2 ** 12;

/** The bits of a float32 but its sign, and those of infinity; NaN has greater ones. */
const [MAGNITUDE, INFINITE] = [0x7fff_ffff, 0x7f80_0000];

/** Mean and squared deviations of values, in units of their level. */
class Moments {
  /** Number of values. */
  count = 0;
  level: number = LOWEST_LEVEL;
  #mean = 0;
  #squares = 0;

  /** Adds the finite values of a block, of which `greatest` is the greatest absolute one and `sum` the sum. */
  add(values: ArrayLike<number>, count: number, greatest: number, sum: number): void {
    const own = greatest === 0 ? this.level : levelOf(greatest);
    const factor = factorOf(own);
    const mean = (own === 0 ? sum : scaledSum(values, factor)) / count;
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (Number.isFinite(value)) squares += (value * factor - mean) ** 2;
    }
    this.merge(count, mean, squares, own);
  }

  /** Welford's method for groups, which does not cancel. */
  merge(count: number, mean: number, squares: number, level: number): void {
    const common = Math.max(this.level, level);
    const all = this.count + count;
    const before = raised(this.#mean, this.level - common);
    const own = raised(mean, level - common);
    this.#squares =
      raised(this.#squares, 2 * (this.level - common)) +
      raised(squares, 2 * (level - common)) +
      ((own - before) ** 2 * this.count * count) / all;
    this.#mean = before + ((own - before) * count) / all;
    this.level = common;
    this.count = all;
  }

  /** Rounding must not lead beyond the limits of mean and deviation, above all not to infinity. */
  result(min: number, max: number): Pick<Statistics, 'mean' | 'std'> {
    const mean = raised(this.#mean, this.level);
    const std = raised(Math.sqrt(this.#squares / this.count), this.level);
    return {
      mean: Math.min(max, Math.max(min, mean)),
      std: Math.min(std, max / 2 - min / 2),
    };
  }
}

function scaledSum(values: ArrayLike<number>, factor: number): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isFinite(value)) sum += value * factor;
  }
  return sum;
}

/** Statistics of all values so far. */
export class RunningStatistics {
  readonly #leastNormal: number;
  /** The bits of that in float32; at least those of the least number that is not zero. */
  readonly #leastBits: number;
  readonly #moments = new Moments();
  #elements = 0;
  #nan = 0;
  #zero = 0;
  #subnormal = 0;
  #min: number = Number.POSITIVE_INFINITY;
  #max: number = Number.NEGATIVE_INFINITY;

  /** @param dtype of the values, to count subnormal ones */
  constructor(dtype: Dtype) {
    this.#leastNormal = LEAST_NORMAL[dtype] ?? 0;
    const bits = new Uint32Array(Float32Array.of(this.#leastNormal).buffer);
    this.#leastBits = Math.max(1, bits[0] as number);
  }

  /** Adds values. */
  add(values: ArrayLike<number>): void {
    if (!isFloat32Array(values)) {
      this.#addAny(values);
      return;
    }
    const { buffer, byteOffset, length } = values;
    for (let begin = 0; begin < length; begin += BLOCK) {
      const at = byteOffset + begin * Float32Array.BYTES_PER_ELEMENT;
      const count = Math.min(BLOCK, length - begin);
      const block = new Float32Array(buffer, at, count);
      if (!this.#addNormal(block, new Uint32Array(buffer, at, count))) this.#addAny(block);
    }
  }

  /** Adds a block if all its values are normal numbers, as in most blocks; else returns false. */
  #addNormal(values: Float32Array, bits: Uint32Array): boolean {
    const { length } = values;
    let [least, greatest] = [MAGNITUDE, 0];
    for (let i = 0; i < length; i++) {
      const magnitude = (bits[i] as number) & MAGNITUDE;
      if (magnitude < least) least = magnitude;
      if (magnitude > greatest) greatest = magnitude;
    }
    if (least < this.#leastBits || greatest >= INFINITE) return false;
    let [min, max, sum] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
    for (let i = 0; i < length; i++) {
      const value = values[i] as number;
      sum += value;
      if (value < min) min = value;
      if (value > max) max = value;
    }
    const mean = sum / length;
    let squares = 0;
    for (let i = 0; i < length; i++) {
      const deviation = (values[i] as number) - mean;
      squares += deviation * deviation;
    }
    this.#elements += length;
    this.#min = Math.min(this.#min, min);
    this.#max = Math.max(this.#max, max);
    this.#moments.merge(length, mean, squares, 0);
    return true;
  }

  #addAny(values: ArrayLike<number>): void {
    const leastNormal = this.#leastNormal;
    let [count, sum] = [0, 0];
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (value === 0) this.#zero++;
      else if (value < leastNormal && value > -leastNormal) this.#subnormal++;
      if (Number.isFinite(value)) {
        count++;
        sum += value;
        if (value < min) min = value;
        if (value > max) max = value;
      } else if (Number.isNaN(value)) this.#nan++;
    }
    this.#elements += values.length;
    if (count === 0) return;
    this.#moments.add(values, count, Math.max(-min, max), sum);
    this.#min = Math.min(this.#min, min);
    this.#max = Math.max(this.#max, max);
  }

  /** Adds the values of patterns, each as often as it was counted. */
  addPatterns({ values, counts }: PatternCounts): void {
    let [finite, sum] = [0, 0];
    for (let i = 0; i < values.length; i++) {
      const [value, count] = [values[i] as number, counts[i] as number];
      this.#elements += count;
      if (value === 0) this.#zero += count;
      else if (value < this.#leastNormal && value > -this.#leastNormal) this.#subnormal += count;
      if (Number.isNaN(value)) this.#nan += count;
      if (!Number.isFinite(value)) continue;
      finite += count;
      sum += value * count;
      if (value < this.#min) this.#min = value;
      if (value > this.#max) this.#max = value;
    }
    if (finite === 0) return;
    const mean = sum / finite;
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (Number.isFinite(value)) squares += (value - mean) ** 2 * (counts[i] as number);
    }
    this.#moments.merge(finite, mean, squares, 0);
  }

  result(): Statistics {
    const finite = this.#moments.count;
    const [min, max] = [this.#min, this.#max];
    return {
      elements: this.#elements,
      ...(finite > 0
        ? { min, max, ...this.#moments.result(min, max) }
        : { min: null, max: null, mean: null, std: null }),
      nan: this.#nan,
      infinite: this.#elements - finite - this.#nan,
      zero: this.#zero,
      subnormal: this.#subnormal,
    };
  }
}
