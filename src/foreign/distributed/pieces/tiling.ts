/** Whether boxes tile a tensor: every element in exactly one of them. */

/** A part of a tensor: its first indices and its sizes, outermost dimension first, in elements. */
export interface Box {
  readonly offsets: readonly number[];
  readonly shape: readonly number[];
}

/** What is wrong with boxes that do not tile a tensor. */
export type TilingFault =
  /** No box has these elements. */
  | { readonly kind: 'gap'; readonly box: Box }
  /** Two of the boxes have these elements; indices in the list of boxes. */
  | { readonly kind: 'overlap'; readonly box: Box; readonly boxes: readonly [number, number] }
  /** Too many boxes in too irregular an arrangement to compare them in bounded time. */
  | { readonly kind: 'limit' };

/** Boxes of a grid are compared once for each dimension; hostile ones could be compared with all others. */
const MAX_COMPARISONS = 2 ** 23;

/** The ranges of a box as a slice: `4:7, 0:5`; empty for a scalar. */
export function formatBox({ offsets, shape }: Box): string {
  return offsets.map((begin, axis) => `${begin}:${begin + (shape[axis] as number)}`).join(', ');
}

/**
 * Returns the first fault of boxes that must tile a tensor; undefined if they do. Boxes lie within the tensor, have its
 * rank and at least one element.
 */
export function tilingFault(
  shape: readonly number[],
  boxes: readonly Box[],
): TilingFault | undefined {
  return new Tiling(shape, boxes).check(0, [...boxes.keys()]);
}

/** Sweeps one dimension after the other: between two neighbouring borders the same boxes must tile the rest. */
class Tiling {
  readonly #shape: readonly number[];
  readonly #boxes: readonly Box[];
  /** The slab of each dimension so far. */
  readonly #begins: number[] = [];
  readonly #ends: number[] = [];
  #comparisons = 0;

  constructor(shape: readonly number[], boxes: readonly Box[]) {
    this.#shape = shape;
    this.#boxes = boxes;
  }

  check(axis: number, boxes: readonly number[]): TilingFault | undefined {
    const [first, second] = boxes;
    if (first === undefined) return { kind: 'gap', box: this.#slab(axis) };
    if (axis === this.#shape.length) {
      if (second === undefined) return undefined;
      return { kind: 'overlap', box: this.#slab(axis), boxes: [first, second] };
    }
    const waiting = boxes.toSorted((a, b) => this.#begin(a, axis) - this.#begin(b, axis));
    let next = 0;
    let active: number[] = [];
    for (let at = 0; at < (this.#shape[axis] as number); ) {
      active = active.filter((box) => this.#end(box, axis) > at);
      while (next < waiting.length && this.#begin(waiting[next] as number, axis) === at) {
        active.push(waiting[next++] as number);
      }
      const begin = next < waiting.length ? this.#begin(waiting[next] as number, axis) : Infinity;
      const end = active.reduce((least, box) => Math.min(least, this.#end(box, axis)), begin);
      const until = Math.min(end, this.#shape[axis] as number);
      this.#comparisons += 1 + active.length;
      if (this.#comparisons > MAX_COMPARISONS) return { kind: 'limit' };
      this.#begins[axis] = at;
      this.#ends[axis] = until;
      const fault = this.check(axis + 1, active);
      if (fault !== undefined) return fault;
      at = until;
    }
    return undefined;
  }

  #begin(box: number, axis: number): number {
    return this.#boxes[box]?.offsets[axis] as number;
  }

  #end(box: number, axis: number): number {
    return this.#begin(box, axis) + (this.#boxes[box]?.shape[axis] as number);
  }

  /** The current slab of the first dimensions, and all of the others. */
  #slab(axis: number): Box {
    const begins = this.#shape.map((_, at) => (at < axis ? (this.#begins[at] as number) : 0));
    const sizes = this.#shape.map((size, at) =>
      at < axis ? (this.#ends[at] as number) - (this.#begins[at] as number) : size,
    );
    return { offsets: begins, shape: sizes };
  }
}
