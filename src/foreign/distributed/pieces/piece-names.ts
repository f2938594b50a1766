/** Names of pieces in the checkpoint of pieces, under which no tensor and no other piece is. */

/** Gives each piece a name that is unique among all pieces and tensors. */
export class PieceNames {
  readonly #taken: Set<string>;

  /** `tensors` are the names of all whole tensors. */
  constructor(tensors: Iterable<string>) {
    this.#taken = new Set(tensors);
  }

  /** Returns the tensor's name with the label; with primes after it if another piece or tensor has that name. */
  of(tensor: string, label: string): string {
    let name = tensor + label;
    while (this.#taken.has(name)) name += '′';
    this.#taken.add(name);
    return name;
  }
}
