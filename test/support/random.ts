/** Random choices that a seed repeats. */

/** Numbers at which readers go wrong. */
const EDGES: readonly number[] = [
  0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
  0xfffffffe, 0xffffffff,
];

/** The generator is mulberry32. */
export class Random {
  #state: number;

  /** The number is the number of the input: each can be made without those before it. */
  constructor(seed: number, number: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) >>> 0;
    this.#uint32();
  }

  #uint32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** From 0 to below the end. */
  below(end: number): number {
    return Math.floor((this.#uint32() / 2 ** 32) * end);
  }

  /** From first to last. */
  from(first: number, last: number): number {
    return first + this.below(last - first + 1);
  }

  chance(probability: number): boolean {
    return this.#uint32() < probability * 2 ** 32;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** One of the functions, called. */
  do<Results extends readonly unknown[]>(
    ...choices: { readonly [I in keyof Results]: () => Results[I] }
  ): Results[number] {
    return this.pick(choices)();
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)));
  }

  /** A number of 32 bits: of those at which readers go wrong, near the usual one, or any. */
  number(usual: number): number {
    const near = (): number => (usual + this.from(-3, 3)) >>> 0;
    return this.do(
      () => this.pick(EDGES),
      near,
      near,
      () => this.#uint32(),
      () => usual >>> 0,
    );
  }
}
