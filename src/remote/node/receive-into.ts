/** The body of an answer while it arrives in its place. */

/** Counts the bytes in the target; they may come before anybody waits for them. */
export class PlacedBody {
  /** Owned by the caller of the request. Only the rest that has not arrived is written to. */
  readonly #target: Uint8Array<ArrayBuffer>;
  #received = 0;
  #reported = 0;
  #failure: { readonly reason: unknown } | undefined;
  /** Looks at the state, if somebody waits. */
  #look: () => void = () => {};

  constructor(target: Uint8Array<ArrayBuffer>) {
    this.#target = target;
  }

  get isComplete(): boolean {
    return this.#received === this.#target.length;
  }

  /** The memory for the next bytes. */
  get rest(): Uint8Array<ArrayBuffer> {
    return this.#target.subarray(this.#received);
  }

  /** Takes the bytes that have come in one read with the head. Returns how many it did not need. */
  copyStart(bytes: Uint8Array): number {
    const wanted = bytes.subarray(0, this.#target.length);
    this.#target.set(wanted);
    this.add(wanted.length);
    return bytes.length - wanted.length;
  }

  /** Counts bytes that were read into the rest. */
  add(byteLength: number): void {
    this.#received += byteLength;
    this.#look();
  }

  /** Ends an incomplete body. */
  fail(reason: unknown): void {
    if (!this.isComplete) this.#failure ??= { reason };
    this.#look();
  }

  /** As in `PlacedAnswer`. Call it once. */
  async receive(arrived: (byteLength: number) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#look = () => {
        const byteLength = this.#received - this.#reported;
        this.#reported = this.#received;
        if (byteLength > 0) arrived(byteLength);
        if (this.isComplete) resolve();
        else if (this.#failure !== undefined) reject(this.#failure.reason);
      };
      this.#look();
    });
  }
}
