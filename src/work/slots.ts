/** Limits how many pieces of work run at once. */

/** Work that waits for a slot. */
interface Waiting {
  readonly begin: () => void;
  next: Waiting | undefined;
}

/** Limits how many pieces of work run at once. Further work waits, first come, first served. */
export class Slots {
  /** Number of pieces of work that run at once. */
  readonly size: number;
  #free: number;
  // A linked list: a hundred thousand may wait, and shifting an array moves every item.
  #first: Waiting | undefined;
  #last: Waiting | undefined;

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  /** Runs the work when a slot is free. The work keeps the slot until it ends or calls `release`. */
  async run(work: (release: () => void) => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#queue(resolve));
    let isHeld = true;
    const release = (): void => {
      if (isHeld) this.#passOn();
      isHeld = false;
    };
    try {
      await work(release);
    } finally {
      release();
    }
  }

  /** Hands a slot to the first in the queue, so nobody jumps it; frees it if the queue is empty. */
  #passOn(): void {
    const first = this.#first;
    this.#first = first?.next;
    if (first === undefined) this.#free++;
    else first.begin();
  }

  #queue(begin: () => void): void {
    const waiting: Waiting = { begin, next: undefined };
    if (this.#first === undefined) this.#first = waiting;
    else (this.#last as Waiting).next = waiting;
    this.#last = waiting;
  }
}

/**
 * Works on items in their order, as many at once as there are slots (which other calls may share). An error of
 * the work or of the iteration, an abort, or an error that `ends` throws before an item is taken, keeps further
 * items from starting; the promise rejects when the items under way have ended.
 *
 * @param ends the caller's signal, or a function that throws when there is no point in going on
 * @throws The error of the first item that failed; `signal.reason`
 */
export async function limit<Item>(
  items: Iterable<Item>,
  slots: Slots,
  work: (item: Item) => Promise<void>,
  ends?: AbortSignal | (() => void),
): Promise<void> {
  const goOn = typeof ends === 'function' ? ends : () => ends?.throwIfAborted();
  const iterator = items[Symbol.iterator]();
  const errors = new Map<number, unknown>();
  let [count, isDone] = [0, false];
  const step = async (): Promise<void> => {
    if (isDone || errors.size > 0) return;
    const index = count++;
    try {
      goOn();
      const item = iterator.next();
      if (item.done === true) isDone = true;
      else await work(item.value);
    } catch (error) {
      errors.set(index, error);
    }
  };
  const lane = async (): Promise<void> => {
    while (!isDone && errors.size === 0) await slots.run(step);
  };
  await Promise.all(Array.from({ length: slots.size }, lane));
  if (errors.size > 0) throw errors.get(Math.min(...errors.keys()));
}
