/**
 * Frames of a pickle, which say how many bytes belong together. Python's two readers go on at different bytes when
 * an opcode does not end where its frame ends, so that no pickler writes such.
 */
export class Frames {
  readonly #report: () => void;
  #end = Number.POSITIVE_INFINITY;

  /** `report` is called for every frame that does not end with an opcode. */
  constructor(report: () => void) {
    this.#report = report;
  }

  /** Begins a frame; the one before has ended. */
  begin(at: number, byteLength: number): void {
    this.end(at);
    this.#end = at + byteLength;
  }

  /** To be called where an opcode begins. */
  reach(at: number): void {
    if (at >= this.#end) this.end(at);
  }

  /** Ends the frame under way, if there is one. */
  end(at: number): void {
    const isExact = this.#end === Number.POSITIVE_INFINITY || this.#end === at;
    this.#end = Number.POSITIVE_INFINITY;
    if (!isExact) this.#report();
  }
}
