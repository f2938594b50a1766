/**
 * Checks frames, which announce the length of the next opcodes. If an opcode crosses the end of its frame, Python's
 * two readers continue at different bytes; picklers never write such frames.
 */
export class Frames {
  readonly #report: () => void;
  #end = Number.POSITIVE_INFINITY;

  /** Calls `report` for every frame that does not end with an opcode. */
  constructor(report: () => void) {
    this.#report = report;
  }

  /** Begins a frame; the previous one has ended. */
  begin(at: number, byteLength: number): void {
    this.end(at);
    this.#end = at + byteLength;
  }

  /** Call it at the start of every opcode. */
  reach(at: number): void {
    if (at >= this.#end) this.end(at);
  }

  /** Ends the current frame, if any. */
  end(at: number): void {
    const isExact = this.#end === Number.POSITIVE_INFINITY || this.#end === at;
    this.#end = Number.POSITIVE_INFINITY;
    if (!isExact) this.#report();
  }
}
